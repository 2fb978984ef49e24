#ifndef QUIRE_KERNELS_CPU_GEMM_DOT_H_
#define QUIRE_KERNELS_CPU_GEMM_DOT_H_

// The inner loop of the mode `bf16x2`, shared by products with weights, by q * k and by p * v.

#include <stdint.h>

#include "kernels/cpu/row_tiles.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// A register tile has R rows and TileVectors(R) vectors of 16 columns: enough accumulators to hide
// the latency of the multiply-adds, few enough to stay in registers beside the operands (32 zmm, or
// 16 ymm of which a vector takes two; without VDPBF16PS an operand takes twice that).
#if defined(__AVX512BF16__)
inline constexpr int kTileRows = 6;
QUIRE_INLINE constexpr int TileVectors(int) { return 4; }
#elif defined(__AVX512F__)
inline constexpr int kTileRows = 4;
QUIRE_INLINE constexpr int TileVectors(int) { return 4; }
#else
inline constexpr int kTileRows = 4;
QUIRE_INLINE constexpr int TileVectors(int num_rows) {
  return num_rows == 1 ? 4 : num_rows <= 3 ? 2 : 1;
}
#endif

// Vectors of the tile with one row, the widest.
inline constexpr int kRowVectors = TileVectors(1);

template <typename Fn>
QUIRE_INLINE void ForRowTiles(int num_rows, Fn fn) {
  ForTilesOf<kTileRows>(num_rows, fn);
}

QUIRE_INLINE I32x16 BroadcastPair(const uint16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return BroadcastInt(pair);
}

QUIRE_INLINE I32x16 LoadPairs(const uint16_t* p) { return LoadBits(p); }

// Asks for the cache line of `p` to be brought into the L2 cache.
QUIRE_INLINE void Fetch(const uint16_t* p) { __builtin_prefetch(p, /*rw=*/0, /*locality=*/2); }

#if defined(__AVX2__) && !defined(__AVX512F__)

// Sixteen registers suffice when one half of a pair is at hand at a time: up to 12 accumulators, 2
// for b, 1 for a, 1 for the mask.
template <int R, int C, typename Half>
QUIRE_INLINE void DotHalfPair(F32x16 (&acc)[R][C], const uint16_t* a, int64_t lda,
                              const uint16_t* const (&b)[C], int64_t b_offset, Half half) {
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
    const I32x16 pairs = LoadPairs(b[c] + b_offset);
    const __m256 lo = half(pairs.lo);
    const __m256 hi = half(pairs.hi);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m256 row = half(BroadcastPair(a + r * lda).lo);
      acc[r][c].lo = _mm256_fmadd_ps(row, lo, acc[r][c].lo);
      acc[r][c].hi = _mm256_fmadd_ps(row, hi, acc[r][c].hi);
    }
  }
}

// acc[r][c] += a[r] * b[c] for one pair.
template <int R, int C>
QUIRE_INLINE void DotPair(F32x16 (&acc)[R][C], const uint16_t* a, int64_t lda,
                          const uint16_t* const (&b)[C], int64_t b_offset) {
  const __m256i high = _mm256_set1_epi32(-0x10000);
  DotHalfPair<R, C>(
      acc, a, lda, b, b_offset, [&](__m256i x) __attribute__((always_inline)) {
        return _mm256_castsi256_ps(_mm256_and_si256(x, high));
      });
  // Operands are loaded again: kept, they would push accumulators out of the registers.
  asm volatile("" ::: "memory");
  DotHalfPair<R, C>(
      acc, a, lda, b, b_offset, [](__m256i x) __attribute__((always_inline)) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
      });
}

#else

// acc[r][c] += a[r] * b[c] for one pair.
template <int R, int C>
QUIRE_INLINE void DotPair(F32x16 (&acc)[R][C], const uint16_t* a, int64_t lda,
                          const uint16_t* const (&b)[C], int64_t b_offset) {
  I32x16 columns[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) columns[c] = LoadPairs(b[c] + b_offset);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const I32x16 row = BroadcastPair(a + r * lda);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[r][c] = FmaPairs(acc[r][c], row, columns[c]);
  }
}

#endif

// acc[r][c] += a[r] * b[c] over `num_pairs` pairs, ascending. Pair i of row r is at
// a + r * lda + 2 * i; pair i of the 16 columns of vector c is at b[c] + i * b_stride. Calls
// also(i) in between.
template <int R, int C, typename Also>
QUIRE_INLINE void DotPairs(F32x16 (&acc)[R][C], const uint16_t* a, int64_t lda,
                           const uint16_t* const (&b)[C], int64_t b_stride, int num_pairs,
                           Also also) {
  for (int i = 0; i < num_pairs; ++i) {
    also(i);
    DotPair<R, C>(acc, a + 2 * i, lda, b, i * b_stride);
  }
}

struct Nothing {
  QUIRE_INLINE void operator()(int) const {}
};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_DOT_H_
