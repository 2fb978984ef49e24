#include "server/cli/doctor/machine_checks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "paged_kv/capacity.h"

namespace quire::cli {
namespace {

// Each connection takes a descriptor; below this a few busy clients take them all.
constexpr rlim_t kFewFiles = 4096;
// Some memory is always swapped out that nobody asks for. More than this part of the RAM says that
// memory is short.
constexpr int64_t kSwapPart = 16;

std::string Count(int64_t number, absl::string_view noun) {
  return absl::StrCat(number, " ", noun, number == 1 ? "" : "s");
}

std::string FilesText(rlim_t limit) {
  return limit == RLIM_INFINITY ? "none" : absl::StrCat(limit);
}

}  // namespace

Finding CpuFinding(const absl::StatusOr<CpuFacts>& cpu) {
  if (!cpu.ok()) {
    return Problem("cpu", std::string(cpu.status().message()),
                   absl::IsFailedPrecondition(cpu.status())
                       ? "unset QUIRE_CPU_ISA, or name one that this machine has"
                       : "take a machine with AVX2, FMA and F16C; in a virtual machine, let it see "
                         "the host's processor (qemu: -cpu host)",
                   LoadExitCode(cpu.status()));
  }
  const std::string quota =
      std::isinf(cpu->cpu_quota) ? "no CPU quota" : absl::StrCat("a CPU quota of ", cpu->cpu_quota);
  const std::string seen = absl::StrCat(
      "has ", absl::StrJoin(cpu->instruction_sets, ", "), "; kernels use ", cpu->instruction_set,
      ", numerics ", cpu->numerics_mode,
      cpu->note.empty() ? "" : absl::StrCat(" (", cpu->note, ")"), "; ",
      Count(cpu->num_threads, "thread"), " on ", Count(cpu->num_cores, "core"), ", ", quota);
  if (cpu->cpu_quota < cpu->num_threads) {
    const auto fitting = static_cast<int>(cpu->cpu_quota);
    return Warning("cpu", absl::StrCat(seen, ": threads stand still once it is used up"),
                   absl::StrCat(fitting > 0 ? absl::StrCat("--threads ", fitting, ", or grant ")
                                            : std::string("grant "),
                                Count(cpu->num_threads, "CPU"), " (docker run --cpus ",
                                cpu->num_threads, "; Kubernetes: resources.limits.cpu)"));
  }
  if (cpu->num_threads > cpu->num_cores) {
    return Warning("cpu", absl::StrCat(seen, ": threads wait for each other's core"),
                   absl::StrCat("--threads ", cpu->num_cores, ", or allow this process more CPUs"));
  }
  return Ok("cpu", seen);
}

std::optional<int64_t> MeminfoBytes(absl::string_view meminfo, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    if (!absl::ConsumePrefix(&line, absl::StrCat(key, ":"))) continue;
    const bool in_kib = absl::ConsumeSuffix(&line, " kB");
    int64_t value = 0;
    if (!absl::SimpleAtoi(line, &value)) return std::nullopt;
    return in_kib ? value * 1024 : value;
  }
  return std::nullopt;
}

Finding MemoryFinding(const MemoryFacts& memory, const MemoryTexts& texts, int64_t kv_cache_bytes) {
  const auto bytes = [&texts](absl::string_view key) {
    return MeminfoBytes(texts.meminfo, key).value_or(0);
  };
  const int64_t total = bytes("MemTotal");
  const int64_t swap = bytes("SwapTotal") - bytes("SwapFree");
  const int64_t available = memory.budget.available_bytes;
  const int64_t limit = memory.budget.cgroup_limit_bytes;
  const int64_t kv = kv_cache_bytes > 0 ? kv_cache_bytes : memory.default_kv_cache_bytes;
  const std::string overcommit(absl::StripAsciiWhitespace(texts.overcommit));
  // cgroup v1 writes a number for "no limit" that no machine has.
  const bool has_limit = limit < kNoMemoryLimit && (total == 0 || limit < total);
  const std::string seen = absl::StrCat(
      BytesText(total), " RAM, cgroup limit ", has_limit ? BytesText(limit) : "none", ", ",
      BytesText(available), " available; KV cache ", BytesText(kv),
      kv_cache_bytes > 0 ? " as asked" : " by default", "; swap in use ", BytesText(swap), " of ",
      BytesText(bytes("SwapTotal")), "; overcommit ", overcommit.empty() ? "unknown" : overcommit);
  if (kv > available) {
    return Problem("memory", absl::StrCat(seen, ": --kv-cache asks for more than there is"),
                   absl::StrCat("--kv-cache ", available / 2 >> 20, "MiB, or give more memory"),
                   ExitCode::kResources);
  }
  if (swap > total / kSwapPart) {
    return Warning("memory", absl::StrCat(seen, ": a step waits for what was swapped out"),
                   "give the machine more memory, or end what else runs there; then sudo swapoff "
                   "-a && sudo swapon -a");
  }
  const int64_t to_promise = bytes("CommitLimit") - bytes("Committed_AS");
  if (overcommit == "2" && to_promise < kv) {
    return Warning(
        "memory",
        absl::StrCat(seen, ", which promises ", BytesText(std::max<int64_t>(0, to_promise)),
                     " more, less than the KV cache"),
        "sudo sysctl vm.overcommit_memory=0, or a smaller --kv-cache");
  }
  return Ok("memory", seen);
}

Finding HugePagesFinding(absl::string_view enabled) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(enabled, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  for (absl::string_view word : words) {
    if (!absl::ConsumePrefix(&word, "[") || !absl::ConsumeSuffix(&word, "]")) continue;
    if (word != "never") {
      return Ok("huge pages", absl::StrCat(word, ": weights and KV cache get them"));
    }
    return Warning("huge pages", "never: steps spend time on looking up small pages",
                   "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
  }
  return Ok("huge pages", "this kernel does not tell, so it may have none");
}

Finding OpenFilesFinding(const rlimit& limit) {
  std::string seen = absl::StrCat("limit ", FilesText(limit.rlim_cur));
  if (limit.rlim_cur != limit.rlim_max) {
    absl::StrAppend(&seen, ", which serve raises to ", FilesText(limit.rlim_max));
  }
  if (limit.rlim_max >= kFewFiles) return Ok("open files", seen);
  return Warning("open files",
                 absl::StrCat(seen,
                              ": a connection takes one, and gRPC stops listening for good "
                              "when none is left"),
                 "ulimit -Hn 65536 as root; docker run --ulimit nofile=65536; systemd: "
                 "LimitNOFILE=65536");
}

}  // namespace quire::cli
