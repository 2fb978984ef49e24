#ifndef QUIRE_KERNELS_CPU_MATH_CONSTANTS_H_
#define QUIRE_KERNELS_CPU_MATH_CONSTANTS_H_

// Numbers that the functions of math.h and their scalar definitions share. The polynomials are
// minimax fits (Remez, 80 digits, rounded to fp32) over the reduced range; coefficients ascend.

namespace quire::math {

inline constexpr float kLog2E = 0x1.715476p+0f;

// ln 2 in two parts. For exp a fused multiply-add forgives a full high part; for log the high part
// has so few bits that its product with an exponent is exact.
inline constexpr float kExpLn2High = 0x1.62e43p-1f;
inline constexpr float kExpLn2Low = -0x1.05c61p-29f;
inline constexpr float kLogLn2High = 0x1.63p-1f;
inline constexpr float kLogLn2Low = -0x1.bd0106p-13f;

// Below kExpMin the result would be denormal: it is 0. Above kExpMax it is infinite.
inline constexpr float kExpMin = -87.33f;
inline constexpr float kExpMax = 88.72f;

// (exp(r) - 1 - r) / r^2 over |r| <= ln(2) / 2, within 3.1e-9 of exp(r).
constexpr float kExpPoly[5] = {0.4999999341218061f, 0.1666652010747381f, 0.04166839429265494f,
                               0.008368780454559622f, 0.001381446262258291f};

// (log(1 + f) - f + f^2 / 2) / f^3 over sqrt(1/2) <= 1 + f <= sqrt(2), within 5.9e-9 of log(1 + f).
constexpr float kLogPoly[8] = {0.33333331722630033f, -0.250008209670259f,  0.20001225601950237f,
                               -0.1662335844118668f, 0.14201787298878268f, -0.13160204732792688f,
                               0.12761386804752686f, -0.07634197693928384f};

// Bits of sqrt(1/2): where log starts to count the next power of two.
inline constexpr int kSqrtHalfBits = 0x3f3504f3;

}  // namespace quire::math

#endif  // QUIRE_KERNELS_CPU_MATH_CONSTANTS_H_
