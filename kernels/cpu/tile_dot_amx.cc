#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/bf16_dot_check.h"

namespace quire {

void AddDotsByTdpbf16(float acc[16 * 16], const uint16_t a[16 * 32], const uint16_t b[16 * 32]) {
  constexpr int kRowBytes = 64;
  TileConfig config;
  for (int tile = 0; tile < 3; ++tile) {
    config.rows[tile] = 16;
    config.row_bytes[tile] = kRowBytes;
  }
  ConfigureTiles(config);
  LoadTile<0>(acc, kRowBytes);
  LoadTile<1>(a, kRowBytes);
  LoadTile<2>(b, kRowBytes);
  MultiplyTiles<0, 1, 2>();
  StoreTile<0>(acc, kRowBytes);
  ReleaseTiles();
}

}  // namespace quire
