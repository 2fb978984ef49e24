#ifndef QUIRE_KERNELS_CPU_WIDE_TILE_H_
#define QUIRE_KERNELS_CPU_WIDE_TILE_H_

// Products of the mode `bf16x2` for many rows on AVX2, in products with weights, in q * k and in
// p * v. Both operands are widened to fp32 beforehand, because shifts and multiply-adds want the
// same ports; a tile of 6 rows and 16 columns needs all registers. The bits are those of
// gemm_dot.h.

#include <stdint.h>

#include "kernels/cpu/gemm_dot.h"
#include "kernels/cpu/row_tiles.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

#if defined(__AVX2__) && !defined(__AVX512F__)
inline constexpr bool kHasWideTiles = true;
#else
inline constexpr bool kHasWideTiles = false;
#endif

// With fewer rows, widening takes longer than it saves.
inline constexpr int kMinWideRows = 8;
inline constexpr int kWideTileRows = 6;
// Elements of k at a time: 16 columns of them lie in the L1 cache.
inline constexpr int kWideDepth = 128;

template <int kMostRows>
struct WideOperands {
  // Of eight pairs of k first the odd halves, then the even ones.
  alignas(64) float a[kMostRows][kWideDepth];
  // Of each pair first the odd half.
  alignas(64) float w[kWideDepth][16];
};

#if defined(__AVX2__) && !defined(__AVX512F__)

QUIRE_INLINE __m256 OddOf(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000)));
}
QUIRE_INLINE __m256 EvenOf(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

// a: bf16 [num_rows, lda], rows readable to a multiple of 16 elements.
template <int kMostRows>
QUIRE_INLINE void WidenRows(const uint16_t* a, int64_t lda, int num_rows, int num_pairs,
                            WideOperands<kMostRows>* out) {
  for (int row = 0; row < num_rows; ++row) {
    for (int i = 0; i < num_pairs; i += 8) {
      const __m256i pairs =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + row * lda + 2 * i));
      _mm256_store_ps(out->a[row] + 2 * i, OddOf(pairs));
      _mm256_store_ps(out->a[row] + 2 * i + 8, EvenOf(pairs));
    }
  }
}

// The pair of k from element k on: of 16 columns, as they lie side by side in memory.
template <int kMostRows>
QUIRE_INLINE void WidenColumns(const uint16_t* pair, int k, WideOperands<kMostRows>* out) {
  const I32x16 both = LoadPairs(pair);
  _mm256_store_ps(out->w[k], OddOf(both.lo));
  _mm256_store_ps(out->w[k] + 8, OddOf(both.hi));
  _mm256_store_ps(out->w[k + 1], EvenOf(both.lo));
  _mm256_store_ps(out->w[k + 1] + 8, EvenOf(both.hi));
}

// c[r] = (first ? +0 : c[r]) + a[row + r] * w over `depth` elements of k. c: fp32 [R, ldc].
template <int R, int kMostRows>
QUIRE_INLINE void MultiplyWideTile(const WideOperands<kMostRows>& operands, int row, int depth,
                                   bool first, float* c, int64_t ldc) {
  F32x16 acc[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) acc[r] = first ? Zero16() : Load(c + r * ldc);
  // Half i of the sixteen from k on.
  const auto add = [&](int k, int i) __attribute__((always_inline)) {
    const F32x16 w = Load(operands.w[k + i]);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      acc[r] = Fma(Broadcast(operands.a[row + r][k + i / 2 + i % 2 * 8]), w, acc[r]);
    }
  };
  int k = 0;
  for (; k + 16 <= depth; k += 16) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) add(k, i);
  }
  for (int i = 0; i < depth - k; ++i) add(k, i);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) Store(c + r * ldc, acc[r]);
}

// All rows: c is [num_rows, ldc]. Not inlined: one copy of its tiles is large enough.
template <int kMostRows>
__attribute__((noinline)) void MultiplyWideRows(const WideOperands<kMostRows>& operands,
                                                int num_rows, int depth, bool first, float* c,
                                                int64_t ldc) {
  ForTilesOf<kWideTileRows>(num_rows, [&]<int R>(int row) {
    MultiplyWideTile<R>(operands, row, depth, first, c + row * ldc, ldc);
  });
}

#endif

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_WIDE_TILE_H_
