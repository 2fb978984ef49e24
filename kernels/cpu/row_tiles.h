#ifndef QUIRE_KERNELS_CPU_ROW_TILES_H_
#define QUIRE_KERNELS_CPU_ROW_TILES_H_

#include "kernels/cpu/isa_target.h"

namespace quire {
inline namespace QUIRE_ISA {

// fn<num>(), for a number known only when it runs. REQUIRES: num in [1, kMost].
template <int kMost, typename Fn>
QUIRE_INLINE void WithRows(int num, Fn fn) {
  if constexpr (kMost > 1) {
    if (num < kMost) return WithRows<kMost - 1>(num, fn);
  }
  fn.template operator()<kMost>();
}

// Calls fn<R>(row) for tiles of at most kMostRows rows that cover [0, num_rows): as few as may be,
// of sizes that differ by one at most, since small tiles do not fill the pipes.
template <int kMostRows, typename Fn>
QUIRE_INLINE void ForTilesOf(int num_rows, Fn fn) {
  int num_tiles = (num_rows + kMostRows - 1) / kMostRows;
  for (int row = 0; num_tiles > 0; --num_tiles) {
    const int size = (num_rows - row + num_tiles - 1) / num_tiles;
    WithRows<kMostRows>(
        size, [&]<int R>() __attribute__((always_inline)) { fn.template operator()<R>(row); });
    row += size;
  }
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ROW_TILES_H_
