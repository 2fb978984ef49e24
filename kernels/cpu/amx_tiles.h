#ifndef QUIRE_KERNELS_CPU_AMX_TILES_H_
#define QUIRE_KERNELS_CPU_AMX_TILES_H_

// The tile instructions of AMX that kernels use. Where QUIRE_AMX_EMULATED is defined, whoever
// includes this has defined these functions itself: tests/testing/amx_emulator.h does, so that
// tests run the same kernels on any machine.
//
// Not the compiler's intrinsics: those of g++ 12 do not say that they read and write memory, so
// that stores before them may be moved behind them.

#include <stdint.h>

#include "kernels/cpu/isa_target.h"

namespace quire {

// What LDTILECFG reads. Tiles that are not set have no rows and must not be used.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

#if !defined(QUIRE_AMX_EMULATED)

inline namespace QUIRE_ISA {

// Sets the shapes of all tiles, and their contents to zero.
QUIRE_INLINE void ConfigureTiles(const TileConfig& config) {
  asm volatile("ldtilecfg %0" : : "m"(config));
}

// Gives the tiles back; until then a context switch saves them.
QUIRE_INLINE void ReleaseTiles() { asm volatile("tilerelease"); }

template <int kTile>
QUIRE_INLINE void ZeroTile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

// Rows of the tile are `stride` bytes apart in memory.
template <int kTile>
QUIRE_INLINE void LoadTile(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
QUIRE_INLINE void StoreTile(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}

// c += a * b by TDPBF16PS: a holds rows of pairs of k, row i of b the pair i of all columns.
template <int kC, int kA, int kB>
QUIRE_INLINE void MultiplyTiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
}

// c += a * b by TDPBSSD: as above, of quads of signed bytes and sums of int32.
template <int kC, int kA, int kB>
QUIRE_INLINE void MultiplyByteTiles() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
}

}  // namespace QUIRE_ISA

#endif  // !QUIRE_AMX_EMULATED

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_AMX_TILES_H_
