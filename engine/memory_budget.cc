#include "engine/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace quire {
namespace {

// The first number in a file; kNoMemoryLimit for "max" (cgroup v2).
std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  if (word == "max") return kNoMemoryLimit;
  int64_t value = 0;
  std::istringstream digits(word);
  if (!(digits >> value)) return kNoMemoryLimit;  // v1 writes "no limit" as a number beyond int64
  return value;
}

// The value behind `key` in a file of "key value" lines, in the file's own unit.
std::optional<int64_t> ReadKey(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  int64_t value = 0;
  while (file >> word) {
    if (word == key && file >> value) return value;
  }
  return std::nullopt;
}

// Available is the limit minus what cannot be given back: usage without inactive page cache.
MemoryBudget BudgetOfGroup(const std::string& dir, const char* limit_file, const char* usage_file,
                           const char* inactive_key) {
  const std::optional<int64_t> limit = ReadNumber(dir + limit_file);
  const std::optional<int64_t> usage = ReadNumber(dir + usage_file);
  if (!limit || !usage || *limit == kNoMemoryLimit) return {kNoMemoryLimit, kNoMemoryLimit};
  const int64_t inactive = ReadKey(dir + "memory.stat", inactive_key).value_or(0);
  return {std::max<int64_t>(0, *limit - std::max<int64_t>(0, *usage - inactive)), *limit};
}

// A limit of any ancestor binds, so the least of all of them counts.
void Tighten(MemoryBudget& budget, const std::string& base, std::string path,
             const char* limit_file, const char* usage_file, const char* inactive_key) {
  while (true) {
    const MemoryBudget group =
        BudgetOfGroup(base + path + "/", limit_file, usage_file, inactive_key);
    budget.available_bytes = std::min(budget.available_bytes, group.available_bytes);
    budget.cgroup_limit_bytes = std::min(budget.cgroup_limit_bytes, group.cgroup_limit_bytes);
    const size_t slash = path.find_last_of('/');
    if (path.empty() || slash == std::string::npos) return;
    path.resize(slash);
  }
}

}  // namespace

MemoryBudget MemoryBudgetAt(const std::string& root) {
  MemoryBudget budget = {kNoMemoryLimit, kNoMemoryLimit};
  if (auto kib = ReadKey(root + "/proc/meminfo", "MemAvailable:")) {
    budget.available_bytes = *kib * 1024;
  }
  // Lines are "id:controllers:path"; v2 has no controllers.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    const std::string trimmed = path == "/" ? "" : path;
    if (controllers.empty()) {
      Tighten(budget, root + "/sys/fs/cgroup", trimmed, "memory.max", "memory.current",
              "inactive_file");
    } else if (controllers == "memory") {
      Tighten(budget, root + "/sys/fs/cgroup/memory", trimmed, "memory.limit_in_bytes",
              "memory.usage_in_bytes", "total_inactive_file");
    }
  }
  return budget;
}

int64_t AvailableMemoryBytes() { return MemoryBudgetAt("").available_bytes; }

int64_t DefaultKvCacheBytes(int64_t available_bytes) {
  constexpr int64_t kMost = int64_t{4} << 30;
  return std::min(kMost, available_bytes / 4);
}

}  // namespace quire
