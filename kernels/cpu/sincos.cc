#include "kernels/cpu/sincos.h"

#include <cmath>

namespace quire {
namespace {

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// pi / 2 as a sum of three doubles.
constexpr double kHalfPi1 = 0x1.921fb54442d18p+0;
constexpr double kHalfPi2 = 0x1.1a62633145c07p-54;
constexpr double kHalfPi3 = -0x1.f1976b7ed8fbcp-110;

// Minimax fits (Remez, 80 digits) over |r| <= pi / 4, z = r^2:
// (sin(r) - r) / r^3, within 3.5e-18 of sin(r) / r, and (cos(r) - 1 + z / 2) / z^2, within 5e-20.
constexpr double kSinPoly[6] = {-0.16666666666666632,    0.008333333333322418,
                                -0.00019841269829811806, 2.7557313693404097e-06,
                                -2.5050758361208938e-08, 1.5896810590563935e-10};
constexpr double kCosPoly[6] = {0.0416666666666666,     -0.0013888888888874131,
                                2.4801587289486934e-05, -2.755731435376951e-07,
                                2.0875723476704497e-09, -1.1359658736107867e-11};

double Polynomial(double x, const double (&c)[6]) {
  double sum = c[5];
  for (int i = 4; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

}  // namespace

SinCos SinCosOf(double angle) {
  const double n = std::rint(angle * kTwoOverPi);
  double r = std::fma(-n, kHalfPi1, angle);
  r = std::fma(-n, kHalfPi2, r);
  r = std::fma(-n, kHalfPi3, r);
  const double z = r * r;
  const double sin = r + r * z * Polynomial(z, kSinPoly);
  const double cos = 1.0 - 0.5 * z + z * z * Polynomial(z, kCosPoly);
  switch (static_cast<long long>(n) & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

}  // namespace quire
