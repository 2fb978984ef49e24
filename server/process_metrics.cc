#include "server/process_metrics.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include "server/metric_families.h"

namespace quire {
namespace {

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// When the machine started, in seconds since 1970.
std::optional<double> BootTime() {
  for (const absl::string_view line : absl::StrSplit(ReadFile("/proc/stat"), '\n')) {
    double seconds = 0;
    if (absl::StartsWith(line, "btime ") && absl::SimpleAtod(line.substr(6), &seconds)) {
      return seconds;
    }
  }
  return std::nullopt;
}

std::optional<double> NumOpenFiles() {
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return std::nullopt;
  double count = -1;  // the one that this look opens
  for (const auto& file : files) {
    (void)file;
    ++count;
  }
  return count;
}

}  // namespace

void AddProcessMetrics(std::vector<prometheus::MetricFamily>* families) {
  const auto gauge = [&](const char* name, const char* help, double value) {
    AddGauge(families, name, help, {{{}, value}});
  };
  // Fields by their numbers in proc(5), from behind the name, which may hold anything.
  const std::string stat = ReadFile("/proc/self/stat");
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(std::min(stat.rfind(')') + 2, stat.size())), ' ');
  const auto field = [&](size_t number) {
    double value = 0;
    if (number - 3 >= fields.size() || !absl::SimpleAtod(fields[number - 3], &value)) return 0.0;
    return value;
  };
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (fields.size() > 24 - 3) {
    AddCounter(families, "process_cpu_seconds_total", "CPU time of user and system",
               {{{}, (field(14) + field(15)) / ticks}});
    gauge("process_threads", "Threads", field(20));
    gauge("process_virtual_memory_bytes", "Virtual memory", field(23));
    gauge("process_resident_memory_bytes", "Resident memory",
          field(24) * static_cast<double>(sysconf(_SC_PAGESIZE)));
    if (const auto boot = BootTime()) {
      gauge("process_start_time_seconds", "Start of the process, in seconds since 1970",
            *boot + field(22) / ticks);
    }
  }
  if (const auto count = NumOpenFiles()) gauge("process_open_fds", "Open files", *count);
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    gauge("process_max_fds", "Open files at most", static_cast<double>(limit.rlim_cur));
  }
}

}  // namespace quire
