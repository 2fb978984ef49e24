#ifndef QUIRE_KERNELS_CPU_UNROLLED_H_
#define QUIRE_KERNELS_CPU_UNROLLED_H_

#include "kernels/cpu/isa_target.h"

namespace quire {
inline namespace QUIRE_ISA {

// fn<i>() for i in [0, kEnd).
template <int kEnd, typename Fn>
QUIRE_INLINE void Unrolled(Fn fn) {
  if constexpr (kEnd > 0) {
    Unrolled<kEnd - 1>(fn);
    fn.template operator()<kEnd - 1>();
  }
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_UNROLLED_H_
