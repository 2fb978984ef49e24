#ifndef QUIRE_KERNELS_CPU_REFERENCE_MATH_H_
#define QUIRE_KERNELS_CPU_REFERENCE_MATH_H_

#include <cstdint>

// Scalar definitions of the functions that other definitions are made of. As everywhere in
// reference/, FTZ and DAZ must be set in the calling thread (ScopedFlushDenormals).

namespace quire::reference {

// x = n ln 2 + r with n = rint(x log2 e); 1 + (r + r^2 P(r)), times 2^n by adding to the exponent.
// 0 below -87.33, infinity above 88.72, x where x is a NaN.
float Exp(float x);

// x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2). REQUIRES: x positive, finite, not denormal.
float Log(float x);

// x / (1 + exp(-x)).
float Silu(float x);

// Sum16: lane i sums elements congruent to i mod 16, ascending from +0; then lanes are added
// pairwise, i and i + 8, then 4, 2, 1.
class Sum16 {
 public:
  void Add(int64_t index, float value) { lanes_[index % 16] += value; }
  float Total() const;

 private:
  float lanes_[16] = {};
};

}  // namespace quire::reference

#endif  // QUIRE_KERNELS_CPU_REFERENCE_MATH_H_
