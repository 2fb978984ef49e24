#ifndef QUIRE_KERNELS_CPU_GEMM_BF16X32_AMX_H_
#define QUIRE_KERNELS_CPU_GEMM_BF16X32_AMX_H_

// The products of mode `bf16x32` (gemm.h) by AMX.

#include <stdint.h>

#include "kernels/cpu/amx_products.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/gemm_bf16x32_blocks.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_kernels.h"

namespace quire {
inline namespace QUIRE_ISA {

// Up to 32 rows by one panel at a time.
class TileMultiplier {
 public:
  template <typename Blocks>
  QUIRE_INLINE void Multiply(const DotPiece& piece, Blocks& blocks) {
    constexpr int kMostRows = 2 * kTileSide;
    for (int panel = 0; panel < piece.num_panels; ++panel) {
      for (int row = 0; row < piece.num_rows; row += kMostRows) {
        const int left = piece.num_rows - row;
        Configure(left < kMostRows ? left : kMostRows);
        // The first rows make the blocks, while tiles are multiplied.
        const auto make = [&](int dot) __attribute__((always_inline)) {
          if (row == 0 && dot < piece.num_dots) blocks.Make(panel, dot);
        };
        if (left <= kTileSide) {
          MultiplyRows<false>(piece, row, panel, blocks.Panel(panel), make);
        } else {
          MultiplyRows<true>(piece, row, panel, blocks.Panel(panel), make);
        }
      }
    }
  }
  QUIRE_INLINE void Finish() { ReleaseTiles(); }

 private:
  // Setting the tiles costs some tens of cycles: most calls have one number of rows.
  QUIRE_INLINE void Configure(int num_rows) {
    if (num_rows == configured_rows_) return;
    configured_rows_ = num_rows;
    ConfigureProducts(num_rows);
  }

  template <bool kTwo, typename Make>
  QUIRE_INLINE static void MultiplyRows(const DotPiece& piece, int row, int panel,
                                        const uint16_t* w, Make make) {
    const uint16_t* a = piece.a + row * piece.lda;
    float* const c = piece.c + row * kBlockCols + panel * kPanelCols;
    if (piece.first) {
      ZeroSums<kTwo>();
    } else {
      LoadSums<kTwo>(c, kBlockCols);
    }
    // One ahead.
    for (int dot = 0; dot <= piece.num_dots; ++dot) {
      make(dot);
      if (dot == 0) continue;
      AddProducts<kTwo>(a, piece.lda, w, w + kPanelCols, kPairElems);
      a += kDotDepth;
      w += kBlockElems;
    }
    StoreSums<kTwo>(c, kBlockCols);
  }

  int configured_rows_ = 0;
};

// One definition: one source includes this file, and one of tests.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const GemmKernelsByFormat kBf16x32GemmKernels = kDotKernelsByFormat<TileMultiplier>;

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_BF16X32_AMX_H_
