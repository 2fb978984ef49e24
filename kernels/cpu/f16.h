#ifndef QUIRE_KERNELS_CPU_F16_H_
#define QUIRE_KERNELS_CPU_F16_H_

#include <stdint.h>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa_target.h"

namespace quire {
inline namespace QUIRE_ISA {

// Exact: every fp16, its denormals included, is a normal fp32.
QUIRE_INLINE float FromF16(uint16_t half) {
  const uint32_t sign = (uint32_t{half} & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) {
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return FloatFromBits(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return FloatFromBits(sign | BitsOfFloat(magnitude));
  }
  return FloatFromBits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

// Nearest, ties to even; beyond the largest fp16, infinity.
QUIRE_INLINE uint16_t ToF16(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, the last place of 0.5
    const float rounded = FloatFromBits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (BitsOfFloat(rounded) - BitsOfFloat(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_F16_H_
