#ifndef QUIRE_KERNELS_CPU_VEC16_AVX512_H_
#define QUIRE_KERNELS_CPU_VEC16_AVX512_H_

// vec16.h for AVX-512 F, BW, VL, DQ, and AVX512_BF16 where the object is compiled for it.

#include <immintrin.h>
#include <stdint.h>

#include "kernels/cpu/isa_target.h"

namespace quire {
inline namespace QUIRE_ISA {

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Mask16 {
  __mmask16 m;
};

QUIRE_INLINE __mmask16 FirstLanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }

QUIRE_INLINE F32x16 Broadcast(float x) { return {_mm512_set1_ps(x)}; }
QUIRE_INLINE I32x16 BroadcastInt(int32_t x) { return {_mm512_set1_epi32(x)}; }
QUIRE_INLINE F32x16 AsFloat(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
QUIRE_INLINE I32x16 AsInt(F32x16 a) { return {_mm512_castps_si512(a.v)}; }

QUIRE_INLINE F32x16 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
QUIRE_INLINE F32x16 LoadN(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(FirstLanes(n), p)};
}
QUIRE_INLINE void Store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
QUIRE_INLINE void StoreN(float* p, F32x16 a, int n) {
  _mm512_mask_storeu_ps(p, FirstLanes(n), a.v);
}
QUIRE_INLINE I32x16 LoadInt(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
QUIRE_INLINE I32x16 LoadIntN(const int32_t* p, int n) {
  return {_mm512_maskz_loadu_epi32(FirstLanes(n), p)};
}
QUIRE_INLINE void StoreInt(int32_t* p, I32x16 a) { _mm512_storeu_si512(p, a.v); }
QUIRE_INLINE void StoreIntN(int32_t* p, I32x16 a, int n) {
  _mm512_mask_storeu_epi32(p, FirstLanes(n), a.v);
}

QUIRE_INLINE F32x16 WidenBf16(__m256i a) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(a), 16))};
}
QUIRE_INLINE F32x16 LoadBf16(const uint16_t* p) {
  return WidenBf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
QUIRE_INLINE F32x16 LoadBf16N(const uint16_t* p, int n) {
  return WidenBf16(_mm256_maskz_loadu_epi16(FirstLanes(n), p));
}
QUIRE_INLINE __m256i NarrowBf16(F32x16 a) {
#if defined(__AVX512BF16__)
  return (__m256i)_mm512_cvtneps_pbh(a.v);
#else
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
  const __mmask16 nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
  const __mmask16 tiny = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(0x00800000));
  const __m512i high = _mm512_srli_epi32(bits, 16);
  const __m512i even = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i bias = _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff));
  __m512i out = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
  out = _mm512_mask_or_epi32(out, nan, high, _mm512_set1_epi32(0x40));
  out = _mm512_mask_and_epi32(out, tiny, high, _mm512_set1_epi32(0x8000));
  return _mm512_cvtepi32_epi16(out);
#endif
}
QUIRE_INLINE I32x16 Bf16Bits(F32x16 a) { return {_mm512_cvtepu16_epi32(NarrowBf16(a))}; }
QUIRE_INLINE void StoreBf16(uint16_t* p, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), NarrowBf16(a));
}
QUIRE_INLINE void StoreBf16N(uint16_t* p, F32x16 a, int n) {
  _mm256_mask_storeu_epi16(p, FirstLanes(n), NarrowBf16(a));
}
QUIRE_INLINE F32x16 LoadF16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
QUIRE_INLINE I32x16 LoadI8(const int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
QUIRE_INLINE I32x16 LoadU8(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}

QUIRE_INLINE void StoreI8(int8_t* p, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}

QUIRE_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
QUIRE_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
QUIRE_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
QUIRE_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
QUIRE_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
QUIRE_INLINE F32x16 NegFma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fnmadd_ps(a.v, b.v, c.v)};
}
QUIRE_INLINE F32x16 Sqrt(F32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
QUIRE_INLINE F32x16 Max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
QUIRE_INLINE F32x16 Min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }

QUIRE_INLINE I32x16 operator+(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
QUIRE_INLINE I32x16 operator-(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
QUIRE_INLINE I32x16 operator&(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
QUIRE_INLINE I32x16 operator|(I32x16 a, I32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
QUIRE_INLINE I32x16 operator^(I32x16 a, I32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int kBits>
QUIRE_INLINE I32x16 ShiftLeft(I32x16 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
QUIRE_INLINE I32x16 ShiftRight(I32x16 a) {  // fills with zeros
  return {_mm512_srli_epi32(a.v, kBits)};
}
template <int kBits>
QUIRE_INLINE I32x16 ShiftRightSigned(I32x16 a) {  // fills with the sign
  return {_mm512_srai_epi32(a.v, kBits)};
}
// Low and high halves of the unsigned 64-bit products.
QUIRE_INLINE I32x16 MulLow(I32x16 a, I32x16 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
QUIRE_INLINE I32x16 MulHigh(I32x16 a, I32x16 b) {
  const __m512i even = _mm512_mul_epu32(a.v, b.v);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), _mm512_srli_epi64(b.v, 32));
  return {_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd)};
}
QUIRE_INLINE I32x16 RoundToInt(F32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }
QUIRE_INLINE I32x16 TruncateToInt(F32x16 a) { return {_mm512_cvttps_epi32(a.v)}; }
QUIRE_INLINE F32x16 ToFloat(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }

QUIRE_INLINE Mask16 Less(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
QUIRE_INLINE Mask16 LessEqual(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)};
}
QUIRE_INLINE Mask16 Equal(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
QUIRE_INLINE Mask16 NotEqual(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)};
}
QUIRE_INLINE Mask16 LessInt(I32x16 a, I32x16 b) { return {_mm512_cmplt_epi32_mask(a.v, b.v)}; }
QUIRE_INLINE Mask16 EqualInt(I32x16 a, I32x16 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
QUIRE_INLINE Mask16 operator&(Mask16 a, Mask16 b) { return {static_cast<__mmask16>(a.m & b.m)}; }
QUIRE_INLINE Mask16 operator|(Mask16 a, Mask16 b) { return {static_cast<__mmask16>(a.m | b.m)}; }
QUIRE_INLINE uint32_t MaskBits(Mask16 a) { return a.m; }
QUIRE_INLINE F32x16 Select(Mask16 mask, F32x16 if_set, F32x16 if_clear) {
  return {_mm512_mask_blend_ps(mask.m, if_clear.v, if_set.v)};
}
QUIRE_INLINE I32x16 Select(Mask16 mask, I32x16 if_set, I32x16 if_clear) {
  return {_mm512_mask_blend_epi32(mask.m, if_clear.v, if_set.v)};
}

QUIRE_INLINE int32_t SumLanesInt(I32x16 a) { return _mm512_reduce_add_epi32(a.v); }
QUIRE_INLINE float SumLanes(F32x16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
QUIRE_INLINE float MaxLanes(F32x16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

QUIRE_INLINE F32x16 FmaPairs(F32x16 acc, I32x16 a, I32x16 b) {
#if defined(__AVX512BF16__)
  return {_mm512_dpbf16_ps(acc.v, (__m512bh)a.v, (__m512bh)b.v)};
#else
  const __m512i high = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u));
  const __m512 a_odd = _mm512_castsi512_ps(_mm512_and_si512(a.v, high));
  const __m512 b_odd = _mm512_castsi512_ps(_mm512_and_si512(b.v, high));
  const __m512 a_even = _mm512_castsi512_ps(_mm512_slli_epi32(a.v, 16));
  const __m512 b_even = _mm512_castsi512_ps(_mm512_slli_epi32(b.v, 16));
  return {_mm512_fmadd_ps(a_even, b_even, _mm512_fmadd_ps(a_odd, b_odd, acc.v))};
#endif
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_VEC16_AVX512_H_
