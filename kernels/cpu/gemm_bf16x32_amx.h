#ifndef QUIRE_KERNELS_CPU_GEMM_BF16X32_AMX_H_
#define QUIRE_KERNELS_CPU_GEMM_BF16X32_AMX_H_

// The products of mode `bf16x32` (gemm.h) by AMX.

#include <stdint.h>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/gemm_bf16x32_blocks.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_kernels.h"

namespace quire {
inline namespace QUIRE_ISA {

inline constexpr int kTileSide = 16;      // rows of a tile
inline constexpr int kTileRowBytes = 64;  // 16 sums, or 32 elements of k, or 16 pairs

// Sums of up to 32 rows by one panel: tiles 0 and 1 are 16 rows by the panel's two halves, tiles 2
// and 3 the rows below. Tiles 4 and 5 hold activations of the two groups of rows, 6 and 7 weights
// of the two halves of the panel.
class TileMultiplier {
 public:
  TileMultiplier() = default;
  TileMultiplier(const TileMultiplier&) = delete;
  TileMultiplier& operator=(const TileMultiplier&) = delete;
  QUIRE_INLINE ~TileMultiplier() { ReleaseTiles(); }

  QUIRE_INLINE void Multiply(const DotPiece& piece) {
    for (int panel = 0; panel < piece.num_panels; ++panel) {
      for (int row = 0; row < piece.num_rows; row += 2 * kTileSide) {
        const int left = piece.num_rows - row;
        Configure(left < 2 * kTileSide ? left : 2 * kTileSide);
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

 private:
  static constexpr int64_t kWeightStride = kPanelCols * 2 * sizeof(uint16_t);  // of pairs
  static constexpr int64_t kSumStride = kBlockCols * sizeof(float);
  static constexpr int kDotElems = kPanelCols * kDotDepth;  // of a panel

  // Tiles for `num_rows` rows, 1 to 32. Setting them costs some tens of cycles: most calls have
  // one number of rows.
  QUIRE_INLINE void Configure(int num_rows) {
    if (num_rows == configured_rows_) return;
    configured_rows_ = num_rows;
    const int upper = num_rows < kTileSide ? num_rows : kTileSide;
    const int lower = num_rows - upper;
    TileConfig config;
    const auto set = [&](int tile, int rows) __attribute__((always_inline)) {
      config.rows[tile] = static_cast<uint8_t>(rows);
      config.row_bytes[tile] = rows == 0 ? 0 : kTileRowBytes;
    };
    set(0, upper);
    set(1, upper);
    set(2, lower);
    set(3, lower);
    set(4, upper);
    set(5, lower);
    set(6, kTileSide);
    set(7, kTileSide);
    ConfigureTiles(config);
  }

  // Two groups of rows, or one.
  template <bool kTwo>
  QUIRE_INLINE static void MultiplyRows(const DotPiece& piece, const uint16_t* a, const uint16_t* w,
                                        float* c) {
    const int64_t a_stride = piece.lda * static_cast<int64_t>(sizeof(uint16_t));
    const int64_t lower = kTileSide * piece.lda;
    LoadSums<kTwo>(c, piece.first);
    for (int dot = 0; dot < piece.num_dots; ++dot) {
      LoadTile<6>(w, kWeightStride);
      LoadTile<4>(a, a_stride);
      MultiplyTiles<0, 4, 6>();
      LoadTile<7>(w + kPanelCols, kWeightStride);
      MultiplyTiles<1, 4, 7>();
      if constexpr (kTwo) {
        LoadTile<5>(a + lower, a_stride);
        MultiplyTiles<2, 5, 6>();
        MultiplyTiles<3, 5, 7>();
      }
      a += kDotDepth;
      w += kDotElems;
    }
    StoreTile<0>(c, kSumStride);
    StoreTile<1>(c + kTileSide, kSumStride);
    if constexpr (kTwo) {
      StoreTile<2>(c + kTileSide * kBlockCols, kSumStride);
      StoreTile<3>(c + kTileSide * kBlockCols + kTileSide, kSumStride);
    }
  }

  template <bool kTwo>
  QUIRE_INLINE static void LoadSums(const float* c, bool first) {
    if (first) {
      ZeroTile<0>();
      ZeroTile<1>();
      if constexpr (kTwo) {
        ZeroTile<2>();
        ZeroTile<3>();
      }
      return;
    }
    LoadTile<0>(c, kSumStride);
    LoadTile<1>(c + kTileSide, kSumStride);
    if constexpr (kTwo) {
      LoadTile<2>(c + kTileSide * kBlockCols, kSumStride);
      LoadTile<3>(c + kTileSide * kBlockCols + kTileSide, kSumStride);
    }
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
