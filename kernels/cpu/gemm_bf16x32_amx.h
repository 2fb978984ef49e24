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
  QUIRE_INLINE void Multiply(const DotPiece& piece) {
    constexpr int kMostRows = 2 * kTileSide;
    for (int panel = 0; panel < piece.num_panels; ++panel) {
      for (int row = 0; row < piece.num_rows; row += kMostRows) {
        const int left = piece.num_rows - row;
        Configure(left < kMostRows ? left : kMostRows);
        const uint16_t* const a = piece.a + row * piece.lda;
        const uint16_t* const w = piece.w + panel * piece.panel_stride;
        float* const c = piece.c + row * kBlockCols + panel * kPanelCols;
        if (left <= kTileSide) {
          MultiplyRows<false>(piece, a, w, c);
        } else {
          MultiplyRows<true>(piece, a, w, c);
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

  template <bool kTwo>
  QUIRE_INLINE static void MultiplyRows(const DotPiece& piece, const uint16_t* a, const uint16_t* w,
                                        float* c) {
    if (piece.first) {
      ZeroSums<kTwo>();
    } else {
      LoadSums<kTwo>(c, kBlockCols);
    }
    for (int dot = 0; dot < piece.num_dots; ++dot) {
      AddProducts<kTwo>(a, piece.lda, w, w + kPanelCols, 2 * kPanelCols);
      a += kDotDepth;
      w += kDotDepth * kPanelCols;
    }
    StoreSums<kTwo>(c, kBlockCols);
  }

  int configured_rows_ = 0;
};

// One definition: one source includes this file, and one of tests.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const GemmKernels kBf16x32GemmKernels = {GemmByDots<TileMultiplier, StoreEpilogue>,
                                                GemmByDots<TileMultiplier, AddEpilogue>,
                                                GemmByDots<TileMultiplier, SiluMulEpilogue>};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_BF16X32_AMX_H_
