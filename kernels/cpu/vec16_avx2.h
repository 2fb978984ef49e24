#ifndef QUIRE_KERNELS_CPU_VEC16_AVX2_H_
#define QUIRE_KERNELS_CPU_VEC16_AVX2_H_

// vec16.h for AVX2, FMA and F16C: two ymm. A mask is all ones or all zeros in each lane.

#include <immintrin.h>
#include <stdint.h>

#include "kernels/cpu/isa_target.h"

namespace quire {
inline namespace QUIRE_ISA {

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};
struct Mask16 {
  __m256i lo, hi;
};

// A mask of the first n lanes for maskload and maskstore: 16 ones, then 16 zeros, read at 16 - n.
QUIRE_INLINE Mask16 FirstLanes(int n) {
  static const int32_t kOnesThenZeros[32] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                             -1, -1, -1, -1, -1, -1, -1, -1};
  const int32_t* p = kOnesThenZeros + 16 - n;
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}

QUIRE_INLINE F32x16 Broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
QUIRE_INLINE I32x16 BroadcastInt(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
QUIRE_INLINE F32x16 AsFloat(I32x16 a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}
QUIRE_INLINE I32x16 AsInt(F32x16 a) {
  return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}

QUIRE_INLINE F32x16 Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
QUIRE_INLINE void Store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
// Whole vectors go past the masks: a masked store costs as much as a dozen others on some
// processors.
QUIRE_INLINE F32x16 LoadN(const float* p, int n) {
  if (n == 16) return Load(p);
  const Mask16 mask = FirstLanes(n);
  return {_mm256_maskload_ps(p, mask.lo), _mm256_maskload_ps(p + 8, mask.hi)};
}
QUIRE_INLINE void StoreN(float* p, F32x16 a, int n) {
  if (n == 16) return Store(p, a);
  const Mask16 mask = FirstLanes(n);
  _mm256_maskstore_ps(p, mask.lo, a.lo);
  _mm256_maskstore_ps(p + 8, mask.hi, a.hi);
}
QUIRE_INLINE I32x16 LoadInt(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
QUIRE_INLINE I32x16 LoadIntN(const int32_t* p, int n) {
  if (n == 16) return LoadInt(p);
  const Mask16 mask = FirstLanes(n);
  return {_mm256_maskload_epi32(p, mask.lo), _mm256_maskload_epi32(p + 8, mask.hi)};
}
QUIRE_INLINE void StoreInt(int32_t* p, I32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
QUIRE_INLINE void StoreIntN(int32_t* p, I32x16 a, int n) {
  if (n == 16) return StoreInt(p, a);
  const Mask16 mask = FirstLanes(n);
  _mm256_maskstore_epi32(p, mask.lo, a.lo);
  _mm256_maskstore_epi32(p + 8, mask.hi, a.hi);
}

QUIRE_INLINE __m256 WidenBf16(__m128i a) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(a), 16));
}
QUIRE_INLINE F32x16 LoadBf16(const uint16_t* p) {
  return {WidenBf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          WidenBf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
QUIRE_INLINE F32x16 LoadBf16N(const uint16_t* p, int n) {
  if (n == 16) return LoadBf16(p);
  uint16_t padded[16] = {};
  for (int i = 0; i < n; ++i) padded[i] = p[i];
  return LoadBf16(padded);
}
// bf16 of each lane in the low half of 32 bits.
QUIRE_INLINE __m256i NarrowBf16(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
  const __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
  const __m256i tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), magnitude);
  const __m256i high = _mm256_srli_epi32(bits, 16);
  const __m256i even = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i bias = _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i zero = _mm256_and_si256(high, _mm256_set1_epi32(0x8000));
  return _mm256_blendv_epi8(_mm256_blendv_epi8(rounded, quiet, nan), zero, tiny);
}
QUIRE_INLINE I32x16 Bf16Bits(F32x16 a) { return {NarrowBf16(a.lo), NarrowBf16(a.hi)}; }
QUIRE_INLINE void StoreBf16(uint16_t* p, F32x16 a) {
  const __m256i packed = _mm256_packus_epi32(NarrowBf16(a.lo), NarrowBf16(a.hi));
  const __m256i ordered = _mm256_permute4x64_epi64(packed, 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), ordered);
}
QUIRE_INLINE void StoreBf16N(uint16_t* p, F32x16 a, int n) {
  if (n == 16) return StoreBf16(p, a);
  uint16_t all[16];
  StoreBf16(all, a);
  for (int i = 0; i < n; ++i) p[i] = all[i];
}
QUIRE_INLINE F32x16 LoadF16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
QUIRE_INLINE I32x16 LoadI8(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
QUIRE_INLINE I32x16 LoadU8(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}

QUIRE_INLINE void StoreI8(int8_t* p, I32x16 a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

QUIRE_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
QUIRE_INLINE F32x16 NegFma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
QUIRE_INLINE F32x16 Sqrt(F32x16 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
QUIRE_INLINE F32x16 Max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32x16 Min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

QUIRE_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
QUIRE_INLINE I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
QUIRE_INLINE I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
QUIRE_INLINE I32x16 operator|(I32x16 a, I32x16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
QUIRE_INLINE I32x16 operator^(I32x16 a, I32x16 b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
template <int kBits>
QUIRE_INLINE I32x16 ShiftLeft(I32x16 a) {
  return {_mm256_slli_epi32(a.lo, kBits), _mm256_slli_epi32(a.hi, kBits)};
}
template <int kBits>
QUIRE_INLINE I32x16 ShiftRight(I32x16 a) {  // fills with zeros
  return {_mm256_srli_epi32(a.lo, kBits), _mm256_srli_epi32(a.hi, kBits)};
}
template <int kBits>
QUIRE_INLINE I32x16 ShiftRightSigned(I32x16 a) {  // fills with the sign
  return {_mm256_srai_epi32(a.lo, kBits), _mm256_srai_epi32(a.hi, kBits)};
}
// Low and high halves of the unsigned 64-bit products.
QUIRE_INLINE I32x16 MulLow(I32x16 a, I32x16 b) {
  return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
QUIRE_INLINE __m256i MulHigh8(__m256i a, __m256i b) {
  const __m256i even = _mm256_mul_epu32(a, b);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
  return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}
QUIRE_INLINE I32x16 MulHigh(I32x16 a, I32x16 b) {
  return {MulHigh8(a.lo, b.lo), MulHigh8(a.hi, b.hi)};
}
QUIRE_INLINE I32x16 RoundToInt(F32x16 a) {
  return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
QUIRE_INLINE I32x16 TruncateToInt(F32x16 a) {
  return {_mm256_cvttps_epi32(a.lo), _mm256_cvttps_epi32(a.hi)};
}
QUIRE_INLINE F32x16 ToFloat(I32x16 a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}

template <int kPredicate>
QUIRE_INLINE Mask16 Compare(F32x16 a, F32x16 b) {
  return {_mm256_castps_si256(_mm256_cmp_ps(a.lo, b.lo, kPredicate)),
          _mm256_castps_si256(_mm256_cmp_ps(a.hi, b.hi, kPredicate))};
}
QUIRE_INLINE Mask16 Less(F32x16 a, F32x16 b) { return Compare<_CMP_LT_OQ>(a, b); }
QUIRE_INLINE Mask16 LessEqual(F32x16 a, F32x16 b) { return Compare<_CMP_LE_OQ>(a, b); }
QUIRE_INLINE Mask16 Equal(F32x16 a, F32x16 b) { return Compare<_CMP_EQ_OQ>(a, b); }
QUIRE_INLINE Mask16 NotEqual(F32x16 a, F32x16 b) { return Compare<_CMP_NEQ_UQ>(a, b); }
QUIRE_INLINE Mask16 LessInt(I32x16 a, I32x16 b) {
  return {_mm256_cmpgt_epi32(b.lo, a.lo), _mm256_cmpgt_epi32(b.hi, a.hi)};
}
QUIRE_INLINE Mask16 EqualInt(I32x16 a, I32x16 b) {
  return {_mm256_cmpeq_epi32(a.lo, b.lo), _mm256_cmpeq_epi32(a.hi, b.hi)};
}
QUIRE_INLINE Mask16 operator&(Mask16 a, Mask16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
QUIRE_INLINE Mask16 operator|(Mask16 a, Mask16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
QUIRE_INLINE uint32_t MaskBits(Mask16 a) {
  const uint32_t lo = _mm256_movemask_ps(_mm256_castsi256_ps(a.lo));
  const uint32_t hi = _mm256_movemask_ps(_mm256_castsi256_ps(a.hi));
  return lo | (hi << 8);
}
QUIRE_INLINE I32x16 Select(Mask16 mask, I32x16 if_set, I32x16 if_clear) {
  return {_mm256_blendv_epi8(if_clear.lo, if_set.lo, mask.lo),
          _mm256_blendv_epi8(if_clear.hi, if_set.hi, mask.hi)};
}
QUIRE_INLINE F32x16 Select(Mask16 mask, F32x16 if_set, F32x16 if_clear) {
  return AsFloat(Select(mask, AsInt(if_set), AsInt(if_clear)));
}

QUIRE_INLINE int32_t SumLanesInt(I32x16 a) {
  const __m256i eight = _mm256_add_epi32(a.lo, a.hi);
  const __m128i four =
      _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}
QUIRE_INLINE float SumLanes(F32x16 a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
QUIRE_INLINE float MaxLanes(F32x16 a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

QUIRE_INLINE __m256 FmaPairs8(__m256 acc, __m256i a, __m256i b) {
  const __m256i high = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
  const __m256 a_odd = _mm256_castsi256_ps(_mm256_and_si256(a, high));
  const __m256 b_odd = _mm256_castsi256_ps(_mm256_and_si256(b, high));
  const __m256 a_even = _mm256_castsi256_ps(_mm256_slli_epi32(a, 16));
  const __m256 b_even = _mm256_castsi256_ps(_mm256_slli_epi32(b, 16));
  return _mm256_fmadd_ps(a_even, b_even, _mm256_fmadd_ps(a_odd, b_odd, acc));
}
QUIRE_INLINE F32x16 FmaPairs(F32x16 acc, I32x16 a, I32x16 b) {
  return {FmaPairs8(acc.lo, a.lo, b.lo), FmaPairs8(acc.hi, a.hi, b.hi)};
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_VEC16_AVX2_H_
