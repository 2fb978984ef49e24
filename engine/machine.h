#ifndef QUIRE_ENGINE_MACHINE_H_
#define QUIRE_ENGINE_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "engine/engine_config.h"
#include "engine/memory_budget.h"

namespace quire {

// What the engine finds on this machine before a model is named, and what it makes of that: by the
// functions that Engine::Load uses.

struct CpuFacts {
  std::vector<std::string> instruction_sets;  // that it runs and kernels are compiled for; rising
  std::string instruction_set;                // that kernels use
  std::string numerics_mode;
  std::string note;  // why not a better one; mostly empty
  int num_threads = 0;
  int num_cores = 0;     // physical ones that this process may run on
  double cpu_quota = 0;  // CPUs that cgroups grant; infinite: no quota
};

// Fails as Engine::Load does on a machine that cannot compute.
absl::StatusOr<CpuFacts> FindCpu(const EngineConfig& config);

struct MemoryFacts {
  MemoryBudget budget;
  int64_t default_kv_cache_bytes = 0;  // before a model's weights are taken
};

MemoryFacts FindMemory();

}  // namespace quire

#endif  // QUIRE_ENGINE_MACHINE_H_
