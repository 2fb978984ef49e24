#ifndef QUIRE_KERNELS_CPU_BF16_H_
#define QUIRE_KERNELS_CPU_BF16_H_

#include <stdint.h>

#include "kernels/cpu/isa_target.h"

// Scalar bfloat16, kept as uint16_t. The one rounding of the product (kernels/numerics.md).
namespace quire {
inline namespace QUIRE_ISA {

QUIRE_INLINE float FloatFromBits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

QUIRE_INLINE uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

QUIRE_INLINE float FromBf16(uint16_t value) { return FloatFromBits(uint32_t{value} << 16); }

// Nearest, ties to even. A denormal becomes a zero of its sign, a NaN a quiet NaN of its sign.
QUIRE_INLINE uint16_t RneBf16(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  if (magnitude < 0x00800000u) return static_cast<uint16_t>((bits >> 16) & 0x8000u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_BF16_H_
