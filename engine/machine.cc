#include "engine/machine.h"

#include <memory>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/isa.h"

namespace quire {

absl::StatusOr<CpuFacts> FindCpu(const EngineConfig& config) {
  CpuFacts facts;
  for (const CpuIsa isa : kAllCpuIsas) {
    if (isa != CpuIsa::kReference && MachineRuns(isa)) {
      facts.instruction_sets.emplace_back(NameOf(isa));
    }
  }
  const absl::StatusOr<IsaChoice> choice = DetectCpuIsa();
  if (!choice.ok()) return choice.status();
  facts.instruction_set = NameOf(choice->isa);
  facts.note = choice->note;
  facts.num_threads = config.num_threads > 0 ? config.num_threads : DefaultNumThreads();
  facts.num_cores = NumAllowedCores();
  facts.cpu_quota = CpuQuota("");
  const absl::StatusOr<std::unique_ptr<Backend>> backend =
      CreateCpuBackend({.num_threads = 1, .isa = choice->isa, .numerics = Bf16ModeOfMachine()});
  if (!backend.ok()) return backend.status();
  facts.numerics_mode = (*backend)->NumericsName();
  return facts;
}

MemoryFacts FindMemory() {
  MemoryFacts facts;
  facts.budget = MemoryBudgetAt("");
  facts.default_kv_cache_bytes = DefaultKvCacheBytes(facts.budget.available_bytes);
  return facts;
}

}  // namespace quire
