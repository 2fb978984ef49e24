#ifndef QUIRE_ENGINE_MEMORY_BUDGET_H_
#define QUIRE_ENGINE_MEMORY_BUDGET_H_

#include <cstdint>
#include <string>

namespace quire {

// Bytes that this process can still take: the least of what the machine has available
// (MemAvailable) and what each cgroup above the process (v2 memory.max, v1 memory.limit_in_bytes)
// leaves. Page cache counts as available.
int64_t AvailableMemoryBytes();

// The same, from files below `root` ("" for the machine's own): for tests.
int64_t AvailableMemoryBytesAt(const std::string& root);

// The KV pool when the operator names no size: 25 % of what is left, 4 GiB at most.
int64_t DefaultKvCacheBytes(int64_t available_bytes);

}  // namespace quire

#endif  // QUIRE_ENGINE_MEMORY_BUDGET_H_
