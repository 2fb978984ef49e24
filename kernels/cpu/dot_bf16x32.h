#ifndef QUIRE_KERNELS_CPU_DOT_BF16X32_H_
#define QUIRE_KERNELS_CPU_DOT_BF16X32_H_

// The inner loop of the mode `bf16x32` without AMX, shared by products with weights, by q * k and
// by p * v. Tiles and operands are those of gemm_dot.h.

#include <stdint.h>

#include "kernels/cpu/gemm_dot.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// Of pairs (k even low, k odd high), the half that is summed.
struct EvenHalf {
  QUIRE_INLINE static F32x16 Of(I32x16 pairs) { return AsFloat(ShiftLeft<16>(pairs)); }
};
struct OddHalf {
  QUIRE_INLINE static F32x16 Of(I32x16 pairs) {
    return AsFloat(pairs & BroadcastInt(static_cast<int32_t>(0xffff0000u)));
  }
};

// sum[r][c] += a[r] * b[c] over one half of `num_pairs` pairs, ascending; as DotPairs has them.
template <typename Half, int R, int C>
QUIRE_INLINE void DotHalves(F32x16 (&sum)[R][C], const uint16_t* a, int64_t lda,
                            const uint16_t* const (&b)[C], int64_t b_stride, int num_pairs) {
#pragma GCC unroll 1
  for (int i = 0; i < num_pairs; ++i) {
    // Rows stay in registers and columns come one by one: of rows, two halves of a vector are one.
    F32x16 rows[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) rows[r] = Half::Of(BroadcastPair(a + r * lda + 2 * i));
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const F32x16 column = Half::Of(LoadPairs(b[c] + i * b_stride));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sum[r][c] = Fma(rows[r], column, sum[r][c]);
    }
  }
}

template <int R, int C>
QUIRE_INLINE void ClearSums(F32x16 (&sums)[R][C]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int i = 0; i < C; ++i) sums[r][i] = Zero16();
  }
}

// c += even + odd for one block of 32 of k, c being [R, ldc]; it starts at zero where `first`.
// Calls add(half, sums) for the even products, then for the odd ones: side by side their sums would
// not fit the registers.
template <int R, int C, typename Add>
QUIRE_INLINE void AddBlock(float* c, int64_t ldc, bool first, Add add) {
  alignas(64) float even[R][C][16];
  F32x16 sums[R][C];
  ClearSums(sums);
  add(EvenHalf(), sums);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int i = 0; i < C; ++i) Store(even[r][i], sums[r][i]);
  }
  // To memory in earnest: kept, they would push the other sums out of the registers.
  asm volatile("" : "+m"(even));
  ClearSums(sums);
  add(OddHalf(), sums);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int i = 0; i < C; ++i) {
      float* const at = c + r * ldc + i * 16;
      Store(at, (first ? Zero16() : Load(at)) + (Load(even[r][i]) + sums[r][i]));
    }
  }
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_DOT_BF16X32_H_
