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

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_F16_H_
