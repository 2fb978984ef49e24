#ifndef QUIRE_KERNELS_CPU_SINCOS_H_
#define QUIRE_KERNELS_CPU_SINCOS_H_

namespace quire {

struct SinCos {
  double sin;
  double cos;
};

// Within 2 ulp of double, the same bits on every machine (libm promises neither the same bits nor
// stays the same from version to version). REQUIRES: |angle| < 2^30.
SinCos SinCosOf(double angle);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_SINCOS_H_
