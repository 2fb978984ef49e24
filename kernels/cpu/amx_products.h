#ifndef QUIRE_KERNELS_CPU_AMX_PRODUCTS_H_
#define QUIRE_KERNELS_CPU_AMX_PRODUCTS_H_

// How products use the eight tiles: up to 32 rows by 32 columns of sums at a time. Tiles 0 and 1
// are the sums of the first 16 rows, in 16 columns each, tiles 2 and 3 those of the rows below.
// Tiles 4 and 5 hold a, of the two groups of rows; tiles 6 and 7 hold b, of the two groups of
// columns.

#include <stdint.h>

#include "kernels/cpu/amx_tiles.h"

namespace quire {
inline namespace QUIRE_ISA {

inline constexpr int kTileSide = 16;      // rows of a tile, and its columns of sums
inline constexpr int kTileRowBytes = 64;  // 16 sums, 32 elements of k, or 16 pairs of them

// For `num_rows` rows, 1 to 32; with 16 or less tiles 2, 3 and 5 are not used.
QUIRE_INLINE void ConfigureProducts(int num_rows) {
  const int upper = num_rows < kTileSide ? num_rows : kTileSide;
  const int rows[8] = {
      upper,     upper,    num_rows - upper, num_rows - upper, upper, num_rows - upper,
      kTileSide, kTileSide};
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.rows[tile] = static_cast<uint8_t>(rows[tile]);
    config.row_bytes[tile] = rows[tile] == 0 ? 0 : kTileRowBytes;
  }
  ConfigureTiles(config);
}

// The sums lie in [rows, stride] floats; kTwo: there are rows past the 16th.
template <bool kTwo>
QUIRE_INLINE void ZeroSums() {
  ZeroTile<0>();
  ZeroTile<1>();
  if constexpr (kTwo) {
    ZeroTile<2>();
    ZeroTile<3>();
  }
}
template <bool kTwo>
QUIRE_INLINE void LoadSums(const float* c, int64_t stride) {
  const int64_t bytes = stride * static_cast<int64_t>(sizeof(float));
  LoadTile<0>(c, bytes);
  LoadTile<1>(c + kTileSide, bytes);
  if constexpr (kTwo) {
    LoadTile<2>(c + kTileSide * stride, bytes);
    LoadTile<3>(c + kTileSide * stride + kTileSide, bytes);
  }
}
template <bool kTwo>
QUIRE_INLINE void StoreSums(float* c, int64_t stride) {
  const int64_t bytes = stride * static_cast<int64_t>(sizeof(float));
  StoreTile<0>(c, bytes);
  StoreTile<1>(c + kTileSide, bytes);
  if constexpr (kTwo) {
    StoreTile<2>(c + kTileSide * stride, bytes);
    StoreTile<3>(c + kTileSide * stride + kTileSide, bytes);
  }
}

// Adds one block of 32 of k. a: bf16 [rows, lda]. left and right: bf16 [16 pairs of k, 16 columns,
// 2] for the two groups of columns, pairs being ldb elements apart.
template <bool kTwo>
QUIRE_INLINE void AddProducts(const uint16_t* a, int64_t lda, const uint16_t* left,
                              const uint16_t* right, int64_t ldb) {
  const int64_t a_bytes = lda * static_cast<int64_t>(sizeof(uint16_t));
  const int64_t b_bytes = ldb * static_cast<int64_t>(sizeof(uint16_t));
  LoadTile<6>(left, b_bytes);
  LoadTile<4>(a, a_bytes);
  MultiplyTiles<0, 4, 6>();
  LoadTile<7>(right, b_bytes);
  MultiplyTiles<1, 4, 7>();
  if constexpr (kTwo) {
    LoadTile<5>(a + kTileSide * lda, a_bytes);
    MultiplyTiles<2, 5, 6>();
    MultiplyTiles<3, 5, 7>();
  }
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_AMX_PRODUCTS_H_
