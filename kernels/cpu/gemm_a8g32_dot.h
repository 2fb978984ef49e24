#ifndef QUIRE_KERNELS_CPU_GEMM_A8G32_DOT_H_
#define QUIRE_KERNELS_CPU_GEMM_A8G32_DOT_H_

// The integer dot products of the mode a8g32: exact, so every instruction set may add in its own
// order. Weights are unsigned bytes of kBits bits, activations signed bytes.

#include <stdint.h>

#include "kernels/cpu/packed_format.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// A register tile has R rows and kTileVectors vectors of 16 columns.
#if defined(__AVX512VNNI__)
inline constexpr int kTileRows = 8;
inline constexpr int kTileVectors = 2;
#elif defined(__AVX2__)
inline constexpr int kTileRows = 4;
inline constexpr int kTileVectors = 1;
#else
inline constexpr int kTileRows = 1;
inline constexpr int kTileVectors = 1;
#endif

// What DotQuads reads: kQuads quads of 16 * kTileVectors columns, and of R rows.
struct DotArgs {
  const uint8_t* w;      // [planes][kQuads][kPanelCols][4], at the first of the columns
  int64_t plane_stride;  // bytes, where elements are cut in two planes of nibbles
  const int8_t* a;       // [R, lda]
  int64_t lda;
};

QUIRE_INLINE int32_t LoadQuad(const int8_t* p) {
  int32_t quad;
  __builtin_memcpy(&quad, p, sizeof(quad));
  return quad;
}

#if defined(__AVX512VNNI__)

// dot[r][c] += sums of products.
template <int kBits, int kQuads, int R, int C>
QUIRE_INLINE void DotQuads(const DotArgs& args, I32x16 (&dot)[R][C]) {
#pragma GCC unroll 8
  for (int quad = 0; quad < kQuads; ++quad) {
    __m512i w[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) {
      w[c] = _mm512_load_si512(args.w + (quad * kPanelCols + c * 16) * 4);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i a = _mm512_set1_epi32(LoadQuad(args.a + r * args.lda + 4 * quad));
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) dot[r][c].v = _mm512_dpbusd_epi32(dot[r][c].v, w[c], a);
    }
  }
}

#elif defined(__AVX2__)

// How many products of two pairs fit 16 bits: 127 * 2 * (2^kBits - 1) each. For 8 bits, cut in two
// nibbles, as for 4.
template <int kBits>
inline constexpr int kQuadsInHalves = kBits == 5   ? 4
                                      : kBits == 6 ? 2
                                                   : 8;

// dot[r] += weight * sums of products of one plane; C is 1.
template <int kBits, int kQuads, int R>
QUIRE_INLINE void DotPlane(const uint8_t* w, const int8_t* a, int64_t lda, __m256i weight,
                           I32x16 (&dot)[R][1]) {
  constexpr int kRun = kQuadsInHalves<kBits> < kQuads ? kQuadsInHalves<kBits> : kQuads;
#pragma GCC unroll 8
  for (int begin = 0; begin < kQuads; begin += kRun) {
    __m256i lo[R], hi[R];
#pragma GCC unroll 8
    for (int quad = begin; quad < begin + kRun; ++quad) {
      const auto* const columns = reinterpret_cast<const __m256i*>(w + quad * kPanelCols * 4);
      const __m256i w_lo = _mm256_load_si256(columns);
      const __m256i w_hi = _mm256_load_si256(columns + 1);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m256i row = _mm256_set1_epi32(LoadQuad(a + r * lda + 4 * quad));
        const __m256i p_lo = _mm256_maddubs_epi16(w_lo, row);
        const __m256i p_hi = _mm256_maddubs_epi16(w_hi, row);
        lo[r] = quad == begin ? p_lo : _mm256_add_epi16(lo[r], p_lo);
        hi[r] = quad == begin ? p_hi : _mm256_add_epi16(hi[r], p_hi);
        // The compiler would compute all products first, and keep them in memory.
        asm("" : "+x"(lo[r]), "+x"(hi[r]));
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      dot[r][0].lo = _mm256_add_epi32(dot[r][0].lo, _mm256_madd_epi16(lo[r], weight));
      dot[r][0].hi = _mm256_add_epi32(dot[r][0].hi, _mm256_madd_epi16(hi[r], weight));
    }
  }
}

template <int kBits, int kQuads, int R, int C>
QUIRE_INLINE void DotQuads(const DotArgs& args, I32x16 (&dot)[R][C]) {
  DotPlane<kBits, kQuads, R>(args.w, args.a, args.lda, _mm256_set1_epi16(1), dot);
  if constexpr (kBits == 8) {
    DotPlane<kBits, kQuads, R>(args.w + args.plane_stride, args.a, args.lda, _mm256_set1_epi16(16),
                               dot);
  }
}

#else

template <int kBits, int kQuads, int R, int C>
QUIRE_INLINE void DotQuads(const DotArgs& args, I32x16 (&dot)[R][C]) {
  for (int quad = 0; quad < kQuads; ++quad) {
    for (int r = 0; r < R; ++r) {
      for (int column = 0; column < 16 * C; ++column) {
        int32_t* const lane = &dot[r][column / 16].v[column % 16];
        for (int i = 0; i < 4; ++i) {
          *lane +=
              args.w[(quad * kPanelCols + column) * 4 + i] * args.a[r * args.lda + quad * 4 + i];
        }
      }
    }
  }
}

#endif

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_A8G32_DOT_H_
