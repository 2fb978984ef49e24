#include "kernels/cpu/reference/math.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/math_constants.h"

namespace quire::reference {
namespace {

template <int N>
float Polynomial(float x, const float (&c)[N]) {
  float sum = c[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = std::fma(sum, x, c[i]);
  return sum;
}

}  // namespace

float Exp(float x) {
  if (std::isnan(x)) return x;
  if (x < math::kExpMin) return 0.0f;
  if (x > math::kExpMax) return std::numeric_limits<float>::infinity();
  const float n = std::rint(x * math::kLog2E);
  const float r = std::fma(-n, math::kExpLn2Low, std::fma(-n, math::kExpLn2High, x));
  const float p = std::fma(r * r, Polynomial(r, math::kExpPoly), r) + 1.0f;
  const uint32_t power = static_cast<uint32_t>(static_cast<int32_t>(n)) << 23;
  return FloatFromBits(BitsOfFloat(p) + power);
}

float Log(float x) {
  const int32_t bits = static_cast<int32_t>(BitsOfFloat(x));
  const int32_t exponent = (bits - math::kSqrtHalfBits) >> 23;
  const float e = static_cast<float>(exponent);
  const float f = FloatFromBits(static_cast<uint32_t>(bits - exponent * (1 << 23))) - 1.0f;
  const float f2 = f * f;
  float y = (f * f2) * Polynomial(f, math::kLogPoly);
  y = std::fma(e, math::kLogLn2Low, y);
  y = std::fma(-0.5f, f2, y);
  return std::fma(e, math::kLogLn2High, f + y);
}

float Silu(float x) { return x / (1.0f + Exp(0.0f - x)); }

float Sum16::Total() const {
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = lanes_[i];
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
  }
  return lanes[0];
}

}  // namespace quire::reference
