#ifndef QUIRE_KERNELS_CPU_GEMM_A8G32_DOT_H_
#define QUIRE_KERNELS_CPU_GEMM_A8G32_DOT_H_

// The integer dot products of the mode a8g32: exact, so every instruction set may add in its own
// order. Weights are bytes that use kBits bits, activations signed bytes.

#include <stdint.h>

#include "kernels/cpu/packed_format.h"
#include "kernels/cpu/unrolled.h"
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

// What DotQuads reads of R rows.
struct DotRows {
  const int8_t* a;  // [R, lda], at the first of kQuads quads
  int64_t lda;
};

QUIRE_INLINE int32_t LoadQuad(const int8_t* p) {
  int32_t quad;
  __builtin_memcpy(&quad, p, sizeof(quad));
  return quad;
}

// DotQuads: dot[r][c] += the products of kQuads quads of row r with those of 16 columns,
// quads<i>(c): bytes u without sign; where kSigned says so, u - 128.

#if defined(__AVX512VNNI__)

template <int kBits>
inline constexpr bool kSigned = false;

template <int kBits, int kQuads, int R, int C, typename Quads>
QUIRE_INLINE void DotQuads(DotRows rows, Quads quads, I32x16 (&dot)[R][C]) {
  Unrolled<kQuads>([&]<int kQuad>() __attribute__((always_inline)) {
    I32x16 w[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) w[c] = quads.template operator()<kQuad>(c);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i a = _mm512_set1_epi32(LoadQuad(rows.a + r * rows.lda + 4 * kQuad));
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) dot[r][c].v = _mm512_dpbusd_epi32(dot[r][c].v, w[c].v, a);
    }
  });
}

#elif defined(__AVX2__)

// VPMADDUBSW adds two products in 16 bits, which holds pairs of 8-bit numbers only if one is a
// magnitude of 128 at most: its sign goes to the other.
template <int kBits>
inline constexpr bool kSigned = kBits == 8;

// How many products of two pairs fit 16 bits: 127 * 2 * (2^kBits - 1) each.
template <int kBits>
inline constexpr int kQuadsInHalves = kBits == 5   ? 4
                                      : kBits == 6 ? 2
                                                   : 8;

template <int kQuads, int R, typename Quads>
QUIRE_INLINE void DotSignedQuads(DotRows rows, Quads quads, I32x16 (&dot)[R][1]) {
  const __m256i ones = _mm256_set1_epi16(1);
  const I32x16 sign_bits = BroadcastInt(static_cast<int32_t>(0x80808080u));
  Unrolled<kQuads>([&]<int kQuad>() __attribute__((always_inline)) {
    const I32x16 w = quads.template operator()<kQuad>(0) ^ sign_bits;  // from u to u - 128
    const __m256i lo = _mm256_abs_epi8(w.lo);
    const __m256i hi = _mm256_abs_epi8(w.hi);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m256i row = _mm256_set1_epi32(LoadQuad(rows.a + r * rows.lda + 4 * kQuad));
      const __m256i p_lo = _mm256_maddubs_epi16(lo, _mm256_sign_epi8(row, w.lo));
      const __m256i p_hi = _mm256_maddubs_epi16(hi, _mm256_sign_epi8(row, w.hi));
      dot[r][0].lo = _mm256_add_epi32(dot[r][0].lo, _mm256_madd_epi16(p_lo, ones));
      dot[r][0].hi = _mm256_add_epi32(dot[r][0].hi, _mm256_madd_epi16(p_hi, ones));
      // The compiler would compute all products first, and keep them in memory.
      asm("" : "+x"(dot[r][0].lo), "+x"(dot[r][0].hi));
    }
  });
}

template <int kBits, int kQuads, int R, int C, typename Quads>
QUIRE_INLINE void DotQuads(DotRows rows, Quads quads, I32x16 (&dot)[R][C]) {
  if constexpr (kSigned<kBits>) {
    DotSignedQuads<kQuads, R>(rows, quads, dot);
    return;
  }
  constexpr int kRun = kQuadsInHalves<kBits> < kQuads ? kQuadsInHalves<kBits> : kQuads;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i lo[R], hi[R];
  Unrolled<kQuads>([&]<int kQuad>() __attribute__((always_inline)) {
    const I32x16 w = quads.template operator()<kQuad>(0);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m256i row = _mm256_set1_epi32(LoadQuad(rows.a + r * rows.lda + 4 * kQuad));
      const __m256i p_lo = _mm256_maddubs_epi16(w.lo, row);
      const __m256i p_hi = _mm256_maddubs_epi16(w.hi, row);
      lo[r] = kQuad % kRun == 0 ? p_lo : _mm256_add_epi16(lo[r], p_lo);
      hi[r] = kQuad % kRun == 0 ? p_hi : _mm256_add_epi16(hi[r], p_hi);
      asm("" : "+x"(lo[r]), "+x"(hi[r]));
    }
    if constexpr (kQuad % kRun == kRun - 1) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        dot[r][0].lo = _mm256_add_epi32(dot[r][0].lo, _mm256_madd_epi16(lo[r], ones));
        dot[r][0].hi = _mm256_add_epi32(dot[r][0].hi, _mm256_madd_epi16(hi[r], ones));
      }
    }
  });
}

#else

template <int kBits>
inline constexpr bool kSigned = false;

template <int kBits, int kQuads, int R, int C, typename Quads>
QUIRE_INLINE void DotQuads(DotRows rows, Quads quads, I32x16 (&dot)[R][C]) {
  Unrolled<kQuads>([&]<int kQuad>() __attribute__((always_inline)) {
    for (int c = 0; c < C; ++c) {
      const I32x16 words = quads.template operator()<kQuad>(c);
      uint8_t w[64];
      StoreBits(w, words);
      for (int r = 0; r < R; ++r) {
        for (int i = 0; i < 64; ++i) {
          dot[r][c].v[i / 4] += w[i] * rows.a[r * rows.lda + kQuad * 4 + i % 4];
        }
      }
    }
  });
}

#endif

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_A8G32_DOT_H_
