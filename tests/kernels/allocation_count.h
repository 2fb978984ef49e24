#ifndef QUIRE_TESTS_KERNELS_ALLOCATION_COUNT_H_
#define QUIRE_TESTS_KERNELS_ALLOCATION_COUNT_H_

#include <cstdint>

namespace quire {

// How often this binary has called operator new, in all threads. Linking allocation_count.cc
// replaces that operator.
int64_t NumAllocations();

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_ALLOCATION_COUNT_H_
