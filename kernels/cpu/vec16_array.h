#ifndef QUIRE_KERNELS_CPU_VEC16_ARRAY_H_
#define QUIRE_KERNELS_CPU_VEC16_ARRAY_H_

// vec16.h in plain C++: what each of its operations means, lane by lane.

#include <stdint.h>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/f16.h"
#include "kernels/cpu/isa_target.h"

namespace quire {
inline namespace QUIRE_ISA {

struct F32x16 {
  float v[16];
};
struct I32x16 {
  int32_t v[16];
};
struct Mask16 {
  bool m[16];
};

// The result of type `Result` whose lane i is `expression`.
#define QUIRE_LANES(Result, member, expression)            \
  Result r;                                                \
  for (int i = 0; i < 16; ++i) r.member[i] = (expression); \
  return r

QUIRE_INLINE uint32_t Unsigned(int32_t x) { return static_cast<uint32_t>(x); }

QUIRE_INLINE F32x16 Broadcast(float x) { QUIRE_LANES(F32x16, v, x); }
QUIRE_INLINE I32x16 BroadcastInt(int32_t x) { QUIRE_LANES(I32x16, v, x); }
QUIRE_INLINE F32x16 AsFloat(I32x16 a) {
  F32x16 r;
  __builtin_memcpy(&r, &a, sizeof(r));
  return r;
}
QUIRE_INLINE I32x16 AsInt(F32x16 a) {
  I32x16 r;
  __builtin_memcpy(&r, &a, sizeof(r));
  return r;
}

QUIRE_INLINE F32x16 Load(const float* p) { QUIRE_LANES(F32x16, v, p[i]); }
QUIRE_INLINE F32x16 LoadN(const float* p, int n) { QUIRE_LANES(F32x16, v, i < n ? p[i] : 0.0f); }
QUIRE_INLINE void StoreN(float* p, F32x16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
QUIRE_INLINE void Store(float* p, F32x16 a) { StoreN(p, a, 16); }
QUIRE_INLINE I32x16 LoadInt(const int32_t* p) { QUIRE_LANES(I32x16, v, p[i]); }
QUIRE_INLINE I32x16 LoadIntN(const int32_t* p, int n) { QUIRE_LANES(I32x16, v, i < n ? p[i] : 0); }
QUIRE_INLINE void StoreIntN(int32_t* p, I32x16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
QUIRE_INLINE void StoreInt(int32_t* p, I32x16 a) { StoreIntN(p, a, 16); }

QUIRE_INLINE F32x16 LoadBf16(const uint16_t* p) { QUIRE_LANES(F32x16, v, FromBf16(p[i])); }
QUIRE_INLINE F32x16 LoadBf16N(const uint16_t* p, int n) {
  QUIRE_LANES(F32x16, v, i < n ? FromBf16(p[i]) : 0.0f);
}
QUIRE_INLINE I32x16 Bf16Bits(F32x16 a) { QUIRE_LANES(I32x16, v, RneBf16(a.v[i])); }
QUIRE_INLINE void StoreBf16N(uint16_t* p, F32x16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = RneBf16(a.v[i]);
}
QUIRE_INLINE void StoreBf16(uint16_t* p, F32x16 a) { StoreBf16N(p, a, 16); }
QUIRE_INLINE F32x16 LoadF16(const uint16_t* p) { QUIRE_LANES(F32x16, v, FromF16(p[i])); }
QUIRE_INLINE I32x16 LoadI8(const int8_t* p) { QUIRE_LANES(I32x16, v, p[i]); }
QUIRE_INLINE I32x16 LoadU8(const uint8_t* p) { QUIRE_LANES(I32x16, v, p[i]); }

QUIRE_INLINE void StoreI8(int8_t* p, I32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}

QUIRE_INLINE F32x16 operator+(F32x16 a, F32x16 b) { QUIRE_LANES(F32x16, v, a.v[i] + b.v[i]); }
QUIRE_INLINE F32x16 operator-(F32x16 a, F32x16 b) { QUIRE_LANES(F32x16, v, a.v[i] - b.v[i]); }
QUIRE_INLINE F32x16 operator*(F32x16 a, F32x16 b) { QUIRE_LANES(F32x16, v, a.v[i] * b.v[i]); }
QUIRE_INLINE F32x16 operator/(F32x16 a, F32x16 b) { QUIRE_LANES(F32x16, v, a.v[i] / b.v[i]); }
QUIRE_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  QUIRE_LANES(F32x16, v, __builtin_fmaf(a.v[i], b.v[i], c.v[i]));
}
QUIRE_INLINE F32x16 NegFma(F32x16 a, F32x16 b, F32x16 c) {
  QUIRE_LANES(F32x16, v, __builtin_fmaf(-a.v[i], b.v[i], c.v[i]));
}
QUIRE_INLINE F32x16 Sqrt(F32x16 a) { QUIRE_LANES(F32x16, v, __builtin_sqrtf(a.v[i])); }
// A comparison returns an operand as the processor reads it: a denormal as zero.
QUIRE_INLINE float AsRead(float x) {
  const uint32_t bits = BitsOfFloat(x);
  return (bits & 0x7f800000u) == 0 ? FloatFromBits(bits & 0x80000000u) : x;
}
QUIRE_INLINE F32x16 Max(F32x16 a, F32x16 b) {
  QUIRE_LANES(F32x16, v, AsRead(a.v[i] > b.v[i] ? a.v[i] : b.v[i]));
}
QUIRE_INLINE F32x16 Min(F32x16 a, F32x16 b) {
  QUIRE_LANES(F32x16, v, AsRead(a.v[i] < b.v[i] ? a.v[i] : b.v[i]));
}

QUIRE_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  QUIRE_LANES(I32x16, v, static_cast<int32_t>(Unsigned(a.v[i]) + Unsigned(b.v[i])));
}
QUIRE_INLINE I32x16 operator-(I32x16 a, I32x16 b) {
  QUIRE_LANES(I32x16, v, static_cast<int32_t>(Unsigned(a.v[i]) - Unsigned(b.v[i])));
}
QUIRE_INLINE I32x16 operator&(I32x16 a, I32x16 b) { QUIRE_LANES(I32x16, v, a.v[i] & b.v[i]); }
QUIRE_INLINE I32x16 operator|(I32x16 a, I32x16 b) { QUIRE_LANES(I32x16, v, a.v[i] | b.v[i]); }
QUIRE_INLINE I32x16 operator^(I32x16 a, I32x16 b) { QUIRE_LANES(I32x16, v, a.v[i] ^ b.v[i]); }
template <int kBits>
QUIRE_INLINE I32x16 ShiftLeft(I32x16 a) {
  QUIRE_LANES(I32x16, v, static_cast<int32_t>(Unsigned(a.v[i]) << kBits));
}
template <int kBits>
QUIRE_INLINE I32x16 ShiftRight(I32x16 a) {  // fills with zeros
  QUIRE_LANES(I32x16, v, static_cast<int32_t>(Unsigned(a.v[i]) >> kBits));
}
template <int kBits>
QUIRE_INLINE I32x16 ShiftRightSigned(I32x16 a) {  // fills with the sign
  QUIRE_LANES(I32x16, v, a.v[i] >> kBits);
}
// Low and high halves of the unsigned 64-bit products.
QUIRE_INLINE uint64_t Product(int32_t a, int32_t b) { return uint64_t{Unsigned(a)} * Unsigned(b); }
QUIRE_INLINE I32x16 MulLow(I32x16 a, I32x16 b) {
  QUIRE_LANES(I32x16, v, static_cast<int32_t>(static_cast<uint32_t>(Product(a.v[i], b.v[i]))));
}
QUIRE_INLINE I32x16 MulHigh(I32x16 a, I32x16 b) {
  QUIRE_LANES(I32x16, v, static_cast<int32_t>(Product(a.v[i], b.v[i]) >> 32));
}
QUIRE_INLINE I32x16 RoundToInt(F32x16 a) {
  QUIRE_LANES(I32x16, v, static_cast<int32_t>(__builtin_lrintf(a.v[i])));
}
QUIRE_INLINE I32x16 TruncateToInt(F32x16 a) {
  QUIRE_LANES(I32x16, v, static_cast<int32_t>(a.v[i]));
}
QUIRE_INLINE F32x16 ToFloat(I32x16 a) { QUIRE_LANES(F32x16, v, static_cast<float>(a.v[i])); }

QUIRE_INLINE Mask16 Less(F32x16 a, F32x16 b) { QUIRE_LANES(Mask16, m, a.v[i] < b.v[i]); }
QUIRE_INLINE Mask16 LessEqual(F32x16 a, F32x16 b) { QUIRE_LANES(Mask16, m, a.v[i] <= b.v[i]); }
QUIRE_INLINE Mask16 Equal(F32x16 a, F32x16 b) { QUIRE_LANES(Mask16, m, a.v[i] == b.v[i]); }
QUIRE_INLINE Mask16 NotEqual(F32x16 a, F32x16 b) { QUIRE_LANES(Mask16, m, a.v[i] != b.v[i]); }
QUIRE_INLINE Mask16 LessInt(I32x16 a, I32x16 b) { QUIRE_LANES(Mask16, m, a.v[i] < b.v[i]); }
QUIRE_INLINE Mask16 EqualInt(I32x16 a, I32x16 b) { QUIRE_LANES(Mask16, m, a.v[i] == b.v[i]); }
QUIRE_INLINE Mask16 operator&(Mask16 a, Mask16 b) { QUIRE_LANES(Mask16, m, a.m[i] && b.m[i]); }
QUIRE_INLINE Mask16 operator|(Mask16 a, Mask16 b) { QUIRE_LANES(Mask16, m, a.m[i] || b.m[i]); }
QUIRE_INLINE uint32_t MaskBits(Mask16 a) {
  uint32_t bits = 0;
  for (int i = 0; i < 16; ++i) bits |= uint32_t{a.m[i]} << i;
  return bits;
}
QUIRE_INLINE F32x16 Select(Mask16 mask, F32x16 if_set, F32x16 if_clear) {
  QUIRE_LANES(F32x16, v, mask.m[i] ? if_set.v[i] : if_clear.v[i]);
}
QUIRE_INLINE I32x16 Select(Mask16 mask, I32x16 if_set, I32x16 if_clear) {
  QUIRE_LANES(I32x16, v, mask.m[i] ? if_set.v[i] : if_clear.v[i]);
}

QUIRE_INLINE int32_t SumLanesInt(I32x16 a) {
  uint32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += Unsigned(a.v[i]);
  return static_cast<int32_t>(sum);
}
QUIRE_INLINE float SumLanes(F32x16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
  }
  return a.v[0];
}
QUIRE_INLINE float MaxLanes(F32x16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  }
  return AsRead(a.v[0]);
}

QUIRE_INLINE float FmaPair(float acc, uint32_t a, uint32_t b) {
  const float high =
      __builtin_fmaf(FloatFromBits(a & 0xffff0000u), FloatFromBits(b & 0xffff0000u), acc);
  return __builtin_fmaf(FloatFromBits(a << 16), FloatFromBits(b << 16), high);
}
QUIRE_INLINE F32x16 FmaPairs(F32x16 acc, I32x16 a, I32x16 b) {
  QUIRE_LANES(F32x16, v, FmaPair(acc.v[i], Unsigned(a.v[i]), Unsigned(b.v[i])));
}

#undef QUIRE_LANES

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_VEC16_ARRAY_H_
