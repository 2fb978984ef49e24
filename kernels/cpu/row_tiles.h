#ifndef QUIRE_KERNELS_CPU_ROW_TILES_H_
#define QUIRE_KERNELS_CPU_ROW_TILES_H_

#include "kernels/cpu/isa_target.h"

namespace quire {
inline namespace QUIRE_ISA {

// Calls fn<R>(row) for tiles of at most kMostRows rows that cover [row, num_rows).
template <int kMostRows, typename Fn>
QUIRE_INLINE void ForTilesOf(int num_rows, Fn fn, int row = 0) {
  for (; row + kMostRows <= num_rows; row += kMostRows) fn.template operator()<kMostRows>(row);
  if constexpr (kMostRows > 1) ForTilesOf<kMostRows - 1>(num_rows, fn, row);
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ROW_TILES_H_
