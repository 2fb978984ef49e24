#include "kernels/cpu/reference/rope.h"

#include <cmath>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/sincos.h"

namespace quire::reference {

void RotateHead(const float* x, int position, const double* inv_freq, double scale, int head_dim,
                uint16_t* out) {
  const int half = head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const SinCos value = SinCosOf(position * inv_freq[i]);
    const float cos = static_cast<float>(value.cos * scale);
    const float sin = static_cast<float>(value.sin * scale);
    out[i] = RneBf16(std::fma(-x[half + i], sin, x[i] * cos));
    out[half + i] = RneBf16(std::fma(x[i], sin, x[half + i] * cos));
  }
}

}  // namespace quire::reference
