#include "kernels/cpu/reference/norm.h"

#include <cmath>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/math.h"

namespace quire::reference {

void RmsNorm(const float* x, const float* weight, int cols, float eps, uint16_t* out) {
  Sum16 squares;
  for (int i = 0; i < cols; ++i) squares.Add(i, x[i] * x[i]);
  const float r = 1.0f / std::sqrt(squares.Total() / static_cast<float>(cols) + eps);
  for (int i = 0; i < cols; ++i) out[i] = RneBf16((x[i] * r) * weight[i]);
}

}  // namespace quire::reference
