#ifndef QUIRE_PAGED_KV_RESERVE_TOUCHED_H_
#define QUIRE_PAGED_KV_RESERVE_TOUCHED_H_

#include <cstddef>
#include <vector>

namespace quire {

// Lets `*elems` grow to `capacity` later without an allocation and without a page fault: reserve()
// alone leaves memory that is only promised. O(capacity).
template <typename T>
void ReserveTouched(size_t capacity, std::vector<T>* elems) {
  const size_t size = elems->size();
  if (capacity <= size) return;
  elems->resize(capacity);
  elems->resize(size);
}

}  // namespace quire

#endif  // QUIRE_PAGED_KV_RESERVE_TOUCHED_H_
