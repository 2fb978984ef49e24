#ifndef QUIRE_KERNELS_CPU_MATH_H_
#define QUIRE_KERNELS_CPU_MATH_H_

// exp, log and what is made of them, over vec16.h. reference/math.h has the scalar definitions.

#include <stdint.h>

#include "kernels/cpu/math_constants.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// Value of the polynomial with ascending coefficients c[0 .. N), by Horner's rule.
template <int N>
QUIRE_INLINE F32x16 Polynomial(F32x16 x, const float (&c)[N]) {
  F32x16 sum = Broadcast(c[N - 1]);
#pragma GCC unroll 16
  for (int i = N - 2; i >= 0; --i) sum = Fma(sum, x, Broadcast(c[i]));
  return sum;
}

// exp(x). REQUIRES: x is within [kExpMin, kExpMax].
QUIRE_INLINE F32x16 ExpInRange16(F32x16 x) {
  const I32x16 n = RoundToInt(x * Broadcast(math::kLog2E));
  const F32x16 float_n = ToFloat(n);
  F32x16 r = NegFma(float_n, Broadcast(math::kExpLn2High), x);
  r = NegFma(float_n, Broadcast(math::kExpLn2Low), r);
  const F32x16 p = Fma(r * r, Polynomial(r, math::kExpPoly), r) + Broadcast(1.0f);
  return AsFloat(AsInt(p) + ShiftLeft<23>(n));
}

// exp(x), within 1 ulp; exact at 0; 0 below -87.33, infinite above 88.72.
QUIRE_INLINE F32x16 Exp16(F32x16 x) {
  F32x16 y = ExpInRange16(Max(Min(x, Broadcast(math::kExpMax)), Broadcast(math::kExpMin)));
  y = Select(Less(x, Broadcast(math::kExpMin)), Zero16(), y);
  y = Select(Less(Broadcast(math::kExpMax), x), AsFloat(BroadcastInt(0x7f800000)), y);
  return Select(IsNan(x), x, y);
}

// The same with less work. REQUIRES: no x is positive; NaNs may be.
QUIRE_INLINE F32x16 ExpOfNegative16(F32x16 x) {
  const F32x16 least = Broadcast(math::kExpMin);
  // Of 0 and a NaN, Max is the NaN.
  return Select(LessEqual(least, x), ExpInRange16(Max(x, least)), Max(Zero16(), x));
}

// log(x), within 1 ulp. REQUIRES: x positive, finite and not denormal.
QUIRE_INLINE F32x16 Log16(F32x16 x) {
  const I32x16 bits = AsInt(x);
  const I32x16 exponent = ShiftRightSigned<23>(bits - BroadcastInt(math::kSqrtHalfBits));
  const F32x16 e = ToFloat(exponent);
  const F32x16 f = AsFloat(bits - ShiftLeft<23>(exponent)) - Broadcast(1.0f);
  const F32x16 f2 = f * f;
  F32x16 y = (f * f2) * Polynomial(f, math::kLogPoly);
  y = Fma(e, Broadcast(math::kLogLn2Low), y);
  y = NegFma(Broadcast(0.5f), f2, y);
  return Fma(e, Broadcast(math::kLogLn2High), f + y);
}

// x / (1 + exp(-x)).
QUIRE_INLINE F32x16 Silu16(F32x16 x) { return x / (Broadcast(1.0f) + Exp16(Zero16() - x)); }

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_MATH_H_
