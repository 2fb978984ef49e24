#include "kernels/cpu/reference/norm.h"

#include <cmath>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/math.h"

namespace quire::reference {
namespace {

float ScaleOf(const float* x, int cols, float eps) {
  Sum16 squares;
  for (int i = 0; i < cols; ++i) squares.Add(i, x[i] * x[i]);
  return 1.0f / std::sqrt(squares.Total() / static_cast<float>(cols) + eps);
}

}  // namespace

void RmsNorm(const float* x, const float* weight, int cols, float eps, uint16_t* out) {
  const float r = ScaleOf(x, cols, eps);
  for (int i = 0; i < cols; ++i) out[i] = RneBf16((x[i] * r) * weight[i]);
}

void RmsNormHead(const float* x, const float* weight, int cols, float eps, float* out) {
  const float r = ScaleOf(x, cols, eps);
  for (int i = 0; i < cols; ++i) out[i] = (x[i] * r) * weight[i];
}

}  // namespace quire::reference
