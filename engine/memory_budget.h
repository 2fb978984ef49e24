#ifndef QUIRE_ENGINE_MEMORY_BUDGET_H_
#define QUIRE_ENGINE_MEMORY_BUDGET_H_

#include <cstdint>
#include <limits>
#include <string>

namespace quire {

struct MemoryBudget {
  // What this process can still take: the least of what the machine has available (MemAvailable)
  // and what each cgroup above the process (v2 memory.max, v1 memory.limit_in_bytes) leaves. Page
  // cache counts as available.
  int64_t available_bytes = 0;
  // The least limit of those cgroups; kNoMemoryLimit, or more than the machine has, where there is
  // none.
  int64_t cgroup_limit_bytes = 0;
};
inline constexpr int64_t kNoMemoryLimit = std::numeric_limits<int64_t>::max();

// Reads files below `root`: "" for the machine's own.
MemoryBudget MemoryBudgetAt(const std::string& root);

int64_t AvailableMemoryBytes();

// The KV pool when the operator names no size: 25 % of what is left, 4 GiB at most.
int64_t DefaultKvCacheBytes(int64_t available_bytes);

}  // namespace quire

#endif  // QUIRE_ENGINE_MEMORY_BUDGET_H_
