#ifndef QUIRE_SERVER_CLI_BENCH_SWEEP_H_
#define QUIRE_SERVER_CLI_BENCH_SWEEP_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

#include "server/cli/bench/load_generator.h"
#include "server/cli/bench/options.h"
#include "server/cli/bench/reports.h"

namespace quire::cli::bench {

// Who hears of a sweep while it runs.
struct SweepListener {
  // A few times a second; `point` has no figures yet.
  std::function<void(const PointResult& point, const LoadProgress& progress)> on_progress;
  // False: enough, no further point is measured.
  std::function<bool(int index, const PointResult& point, const LoadResult& load)> on_point;
};

// Warms up, then measures point after point until the last, or until the generator is interrupted.
// INVALID_ARGUMENT: what the options ask cannot be had of this target.
absl::Status RunSweep(const Options& options, const RunInfo& run, const Workload& workload,
                      Target& target, LoadGenerator& generator, const SweepListener& listener);

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_SWEEP_H_
