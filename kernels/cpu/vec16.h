#ifndef QUIRE_KERNELS_CPU_VEC16_H_
#define QUIRE_KERNELS_CPU_VEC16_H_

// Sixteen lanes of fp32 or int32: one zmm, two ymm or an array, by what this object is compiled
// for. All three compute the same bits, lane by lane, with FTZ and DAZ set; only the sign and
// payload of a NaN are left open. Kernels are written once over this and know no intrinsics.
//
//   F32x16, I32x16, Mask16
//   Load Store LoadN StoreN     16 elements, or the first n (the others read as 0, stay unwritten)
//   LoadBf16 StoreBf16 ...N     bf16 in memory, fp32 in lanes; stores round as RneBf16 does
//   Bf16Bits                    what StoreBf16 would store, in the low halves of lanes
//   LoadF16 LoadI8 LoadU8       converted on load, exactly
//   StoreI8                     REQUIRES: lanes fit int8
//   Fma(a, b, c) = a*b + c; NegFma(a, b, c) = c - a*b, rounded once
//   Max(a, b) = a > b ? a : b; Min(a, b) = a < b ? a : b: the second where one is a NaN
//   RoundToInt                  nearest even; REQUIRES: |x| < 2^31
//   SumLanes                    pairwise tree: i + (i+8), then 4, 2, 1
//   SumLanesInt                 modulo 2^32
//   FmaPairs(acc, a, b)         lanes are pairs of bf16 (k even low, k odd high):
//                               acc = fma(a_odd, b_odd, acc), then fma(a_even, b_even, acc)

#include <stdint.h>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa_target.h"

#if defined(__AVX512F__)
#include "kernels/cpu/vec16_avx512.h"
#elif defined(__AVX2__)
#include "kernels/cpu/vec16_avx2.h"
#else
#include "kernels/cpu/vec16_array.h"
#endif

namespace quire {
inline namespace QUIRE_ISA {

QUIRE_INLINE F32x16 Zero16() { return Broadcast(0.0f); }

QUIRE_INLINE F32x16 Abs(F32x16 x) { return AsFloat(AsInt(x) & BroadcastInt(0x7fffffff)); }

// 64 bytes of any type.
QUIRE_INLINE I32x16 LoadBits(const void* p) {
#if defined(__AVX2__)
  return LoadInt(static_cast<const int32_t*>(p));
#else
  I32x16 bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  return bits;
#endif
}
QUIRE_INLINE void StoreBits(void* p, I32x16 bits) {
#if defined(__AVX2__)
  StoreInt(static_cast<int32_t*>(p), bits);
#else
  __builtin_memcpy(p, &bits, sizeof(bits));
#endif
}

QUIRE_INLINE Mask16 IsNan(F32x16 a) { return NotEqual(a, a); }

// Infinities and NaNs have all bits of the exponent set.
QUIRE_INLINE Mask16 IsNotFinite(F32x16 a) {
  const I32x16 exponent = BroadcastInt(0x7f800000);
  return EqualInt(AsInt(a) & exponent, exponent);
}

QUIRE_INLINE bool Any(Mask16 mask) { return MaskBits(mask) != 0; }

// {0, 1, ..., 15}
QUIRE_INLINE I32x16 Iota16() {
  static const int32_t kIota[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return LoadInt(kIota);
}

QUIRE_INLINE Mask16 FirstN(int n) { return LessInt(Iota16(), BroadcastInt(n)); }

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_VEC16_H_
