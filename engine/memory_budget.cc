#include "engine/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace quire {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The first number in a file; kUnlimited for "max" (cgroup v2).
std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  if (word == "max") return kUnlimited;
  int64_t value = 0;
  std::istringstream digits(word);
  if (!(digits >> value)) return kUnlimited;  // v1 writes "no limit" as a number beyond int64
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

// Limit minus what cannot be given back (usage without inactive page cache).
int64_t LeftInGroup(const std::string& dir, const char* limit_file, const char* usage_file,
                    const char* inactive_key) {
  const std::optional<int64_t> limit = ReadNumber(dir + limit_file);
  const std::optional<int64_t> usage = ReadNumber(dir + usage_file);
  if (!limit || !usage || *limit == kUnlimited) return kUnlimited;
  const int64_t inactive = ReadKey(dir + "memory.stat", inactive_key).value_or(0);
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *usage - inactive));
}

// A limit of any ancestor binds, so the least of all of them counts.
int64_t LeftAlongPath(const std::string& base, std::string path, const char* limit_file,
                      const char* usage_file, const char* inactive_key) {
  int64_t left = kUnlimited;
  while (true) {
    left = std::min(left, LeftInGroup(base + path + "/", limit_file, usage_file, inactive_key));
    const size_t slash = path.find_last_of('/');
    if (path.empty() || slash == std::string::npos) return left;
    path.resize(slash);
  }
}

}  // namespace

int64_t AvailableMemoryBytesAt(const std::string& root) {
  int64_t left = kUnlimited;
  if (auto kib = ReadKey(root + "/proc/meminfo", "MemAvailable:")) left = *kib * 1024;
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
      left = std::min(left, LeftAlongPath(root + "/sys/fs/cgroup", trimmed, "memory.max",
                                          "memory.current", "inactive_file"));
    } else if (controllers == "memory") {
      left = std::min(
          left, LeftAlongPath(root + "/sys/fs/cgroup/memory", trimmed, "memory.limit_in_bytes",
                              "memory.usage_in_bytes", "total_inactive_file"));
    }
  }
  return left;
}

int64_t AvailableMemoryBytes() { return AvailableMemoryBytesAt(""); }

int64_t DefaultKvCacheBytes(int64_t available_bytes) {
  constexpr int64_t kMost = int64_t{4} << 30;
  return std::min(kMost, available_bytes / 4);
}

}  // namespace quire
