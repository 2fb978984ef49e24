#include "engine/machine_speed.h"

#include <algorithm>

#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/machine_rates.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {
namespace {

// Other load and clocks change by the moment: the best of many short measurements counts.
constexpr double kSeconds = 0.8;

}  // namespace

absl::StatusOr<MachineSpeed> MeasureMachine(int num_threads) {
  const absl::StatusOr<IsaChoice> choice = DetectCpuIsa();
  if (!choice.ok()) return choice.status();
  ThreadPool pool(num_threads > 0 ? num_threads : DefaultNumThreads());
  absl::StatusOr<MachineRates> rates = MachineRates::Make(choice->isa, &pool);
  if (!rates.ok()) return rates.status();
  MachineSpeed best;
  for (const double end = rates->Now() + kSeconds; rates->Now() < end;) {
    best.read_bytes_per_s = std::max(best.read_bytes_per_s, rates->Read());
    for (const NumericsMode mode : kAllNumericsModes) {
      double& rate = best.operations_per_s[static_cast<size_t>(mode)];
      rate = std::max(rate, rates->Multiply(mode));
    }
  }
  return best;
}

}  // namespace quire
