#ifndef QUIRE_SERVER_CLI_DOCTOR_MACHINE_CHECKS_H_
#define QUIRE_SERVER_CLI_DOCTOR_MACHINE_CHECKS_H_

#include <optional>
#include <string>
#include <sys/resource.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "engine/machine.h"
#include "server/cli/doctor/finding.h"

namespace quire::cli {

// What is to say of this machine, whatever the model. Pure: the facts are parameters, and the texts
// are those of the kernel's files, empty where there is no such file.

Finding CpuFinding(const absl::StatusOr<CpuFacts>& cpu);

// What /proc has to say of memory.
struct MemoryTexts {
  std::string meminfo;     // /proc/meminfo
  std::string overcommit;  // /proc/sys/vm/overcommit_memory
};
// `kv_cache_bytes` is --kv-cache; 0: the default.
Finding MemoryFinding(const MemoryFacts& memory, const MemoryTexts& texts, int64_t kv_cache_bytes);

// `enabled` is /sys/kernel/mm/transparent_hugepage/enabled.
Finding HugePagesFinding(absl::string_view enabled);

// `limit` is RLIMIT_NOFILE.
Finding OpenFilesFinding(const rlimit& limit);

// The value of one key of /proc/meminfo; nothing where it is not there.
std::optional<int64_t> MeminfoBytes(absl::string_view meminfo, absl::string_view key);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_DOCTOR_MACHINE_CHECKS_H_
