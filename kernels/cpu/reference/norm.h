#ifndef QUIRE_KERNELS_CPU_REFERENCE_NORM_H_
#define QUIRE_KERNELS_CPU_REFERENCE_NORM_H_

#include <cstdint>

namespace quire::reference {

// out = rne_bf16((x * r) * weight), r = 1 / sqrt(Sum16(x * x) / cols + eps).
// x, weight: [cols]; out: bf16 [cols].
void RmsNorm(const float* x, const float* weight, int cols, float eps, uint16_t* out);

// The same without the rounding, for heads of q and k that are rotated and rounded next:
// out = (x * r) * weight. out: fp32 [cols], may be x.
void RmsNormHead(const float* x, const float* weight, int cols, float eps, float* out);

}  // namespace quire::reference

#endif  // QUIRE_KERNELS_CPU_REFERENCE_NORM_H_
