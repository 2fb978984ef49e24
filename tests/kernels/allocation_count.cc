#include "tests/kernels/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

static std::atomic<int64_t> num_allocations{0};

void* operator new(size_t bytes) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
// As the default one does; AddressSanitizer's would not call the one above.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return operator new(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace quire {

int64_t NumAllocations() { return num_allocations.load(std::memory_order_relaxed); }

}  // namespace quire
