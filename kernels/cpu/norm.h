#ifndef QUIRE_KERNELS_CPU_NORM_H_
#define QUIRE_KERNELS_CPU_NORM_H_

#include <stdint.h>

#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// 1 / sqrt(Sum16(x * x) / cols + eps), in all lanes. x: [cols].
QUIRE_INLINE F32x16 RmsScale(const float* x, int cols, float eps) {
  const int whole = cols / 16 * 16;
  const int rest = cols - whole;
  F32x16 squares = Zero16();
  for (int i = 0; i < whole; i += 16) {
    const F32x16 v = Load(x + i);
    squares = squares + v * v;
  }
  if (rest > 0) {
    const F32x16 v = LoadN(x + whole, rest);
    squares = squares + v * v;
  }
  const float mean = SumLanes(squares) / static_cast<float>(cols);
  return Broadcast(1.0f / __builtin_sqrtf(mean + eps));
}

// out = rne_bf16((x * r) * weight), r = 1 / sqrt(Sum16(x * x) / cols + eps). x, weight: [cols];
// out: bf16 [cols], and a zero after it where cols is odd.
inline void RmsNormRow(const float* x, const float* weight, int cols, float eps, uint16_t* out) {
  const int whole = cols / 16 * 16;
  const int rest = cols - whole;
  const F32x16 r = RmsScale(x, cols, eps);
  for (int i = 0; i < whole; i += 16) StoreBf16(out + i, (Load(x + i) * r) * Load(weight + i));
  if (rest > 0) {
    const F32x16 y = (LoadN(x + whole, rest) * r) * LoadN(weight + whole, rest);
    StoreBf16N(out + whole, y, rest);
  }
  if (cols % 2 != 0) out[cols] = 0;
}

// The same without the rounding: out = (x * r) * weight, fp32 [cols], may be x.
inline void RmsNormHead(const float* x, const float* weight, int cols, float eps, float* out) {
  const F32x16 r = RmsScale(x, cols, eps);
  for (int i = 0; i < cols; i += 16) {
    const int n = cols - i < 16 ? cols - i : 16;
    StoreN(out + i, (LoadN(x + i, n) * r) * LoadN(weight + i, n), n);
  }
}

// Whether no element of x [n] is a NaN or an infinity.
inline bool AllFinite(const float* x, int64_t n) {
  const int64_t whole = n / 16 * 16;
  uint32_t bad = 0;
  for (int64_t i = 0; i < whole; i += 16) bad |= MaskBits(IsNotFinite(Load(x + i)));
  const int rest = static_cast<int>(n - whole);
  if (rest > 0) bad |= MaskBits(IsNotFinite(LoadN(x + whole, rest)));
  return bad == 0;
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_NORM_H_
