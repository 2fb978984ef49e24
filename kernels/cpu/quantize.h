#ifndef QUIRE_KERNELS_CPU_QUANTIZE_H_
#define QUIRE_KERNELS_CPU_QUANTIZE_H_

#include <stdint.h>

#include "kernels/cpu/quantized_rows.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// Elements [0, 16) of a group times `inverse`, rounded and clamped.
QUIRE_INLINE I32x16 Quantized(F32x16 x, F32x16 inverse) {
  const F32x16 clamped = Max(Min(x * inverse, Broadcast(127.0f)), Broadcast(-127.0f));
  return RoundToInt(clamped);
}

QUIRE_INLINE void QuantizeGroup(F32x16 low, F32x16 high, int8_t* q, RowGroup* group) {
  const float amax = MaxLanes(Max(Abs(low), Abs(high)));
  const bool finite = !Any(IsNotFinite(low) | IsNotFinite(high));
  const float inverse = 127.0f / amax;
  group->scale = finite ? amax / 127.0f : __builtin_nanf("");
  if (!finite || !(inverse < __builtin_inff())) {
    __builtin_memset(q, 0, kGroupDepth);
    group->sum = group->sum_of_half = 0;
  } else {
    const I32x16 q_low = Quantized(low, Broadcast(inverse));
    const I32x16 q_high = Quantized(high, Broadcast(inverse));
    StoreI8(q, q_low);
    StoreI8(q + 16, q_high);
    group->sum_of_half = SumLanesInt(q_low);
    group->sum = SumLanesInt(q_low + q_high);
  }
  group->scaled_sum = group->scale * static_cast<float>(group->sum);
}

// One row as quantized_rows.h has it. x: [cols]; q: [cols rounded up to a multiple of 32];
// groups: [that / 32].
inline void QuantizeRow(const float* x, int cols, int8_t* q, RowGroup* groups) {
  int i = 0;
  for (; i + kGroupDepth <= cols; i += kGroupDepth) {
    QuantizeGroup(Load(x + i), Load(x + i + 16), q + i, groups + i / kGroupDepth);
  }
  const int rest = cols - i;
  if (rest == 0) return;
  const F32x16 low = LoadN(x + i, rest < 16 ? rest : 16);
  const F32x16 high = rest > 16 ? LoadN(x + i + 16, rest - 16) : Zero16();
  QuantizeGroup(low, high, q + i, groups + i / kGroupDepth);
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_QUANTIZE_H_
