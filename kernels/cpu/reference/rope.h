#ifndef QUIRE_KERNELS_CPU_REFERENCE_ROPE_H_
#define QUIRE_KERNELS_CPU_REFERENCE_ROPE_H_

#include <cstdint>

namespace quire::reference {

// One head, rotated by pairs (i, i + head_dim / 2) by the angle position * inv_freq[i], and
// rounded:
//   low = fma(-x_high, sin, x_low * cos), high = fma(x_low, sin, x_high * cos)
// cos and sin are computed in double, times `scale`, and rounded to fp32.
// x: [head_dim]; inv_freq: [head_dim / 2]; out: bf16 [head_dim].
void RotateHead(const float* x, int position, const double* inv_freq, double scale, int head_dim,
                uint16_t* out);

}  // namespace quire::reference

#endif  // QUIRE_KERNELS_CPU_REFERENCE_ROPE_H_
