#include "kernels/cpu/cpu_count.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sched.h>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace quire {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

double CpusOf(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return kNoQuota;
  return static_cast<double>(quota) / static_cast<double>(period);
}

int64_t NumberOr(absl::string_view text, int64_t otherwise) {
  int64_t value = 0;
  return absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// Of one cgroup: v2 has "quota period" or "max period" in one file, v1 has two files.
double QuotaOfV2(const std::string& directory) {
  const std::pair<std::string, std::string> fields =
      absl::StrSplit(FirstLine(directory + "/cpu.max"), absl::MaxSplits(' ', 1));
  return CpusOf(NumberOr(fields.first, -1), NumberOr(fields.second, -1));
}

double QuotaOfV1(const std::string& directory) {
  return CpusOf(NumberOr(FirstLine(directory + "/cpu.cfs_quota_us"), -1),
                NumberOr(FirstLine(directory + "/cpu.cfs_period_us"), -1));
}

// The least of the cgroup at `path` below `mount` and all above it. Inside a container the path of
// /proc may be one that only the host sees; the container's own limits are at the mount then.
double LeastQuota(const std::string& mount, std::string path,
                  double (*quota_of)(const std::string&)) {
  double least = quota_of(mount);
  while (!path.empty() && path != "/") {
    least = std::min(least, quota_of(absl::StrCat(mount, path)));
    path.resize(path.rfind('/'));
  }
  return least;
}

}  // namespace

int NumAllowedCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string siblings = FirstLine(
        absl::StrCat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    cores.insert(siblings.empty() ? absl::StrCat("cpu", cpu) : siblings);
  }
  return static_cast<int>(cores.size());
}

double CpuQuota(const std::string& root) {
  double least = kNoQuota;
  std::ifstream cgroups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(cgroups, line)) {
    // hierarchy:controllers:path; v2 has no controllers.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (fields[1].empty()) {
      least = std::min(least, LeastQuota(root + "/sys/fs/cgroup", fields[2], QuotaOfV2));
    } else if (std::find(controllers.begin(), controllers.end(), "cpu") != controllers.end()) {
      least = std::min(least, LeastQuota(root + "/sys/fs/cgroup/cpu", fields[2], QuotaOfV1));
    }
  }
  return least;
}

int DefaultNumThreads() {
  return std::max(1, static_cast<int>(std::min<double>(NumAllowedCores(), CpuQuota(""))));
}

}  // namespace quire
