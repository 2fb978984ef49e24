#ifndef QUIRE_SERVER_CLI_BENCH_REPORTS_H_
#define QUIRE_SERVER_CLI_BENCH_REPORTS_H_

#include <string>
#include <vector>

#include "engine/machine_speed.h"
#include "server/cli/bench/statistics.h"
#include "server/cli/bench/target.h"
#include "server/cli/report.h"

namespace quire::cli::bench {

// What holds for all points of a run.
struct RunInfo {
  TargetInfo target;
  uint64_t seed = 0;
  Slo slo;
  MachineSpeed machine;  // zeros: not measured
};

// Operations a second that the machine allows in the target's mode of numerics; 0: not measured, or
// an instruction that has no measurement.
double PeakOperations(const RunInfo& run);

// "concurrency 8", "2.5 requests/s".
std::string NameOf(const PointResult& point);

// Lines for people, each with its end of line: what is measured; one point.
std::string ToText(const RunInfo& run);
std::string ToText(const PointResult& point);

// One object for a script. Distributions without values are null.
Json ToJson(const RunInfo& run, const PointResult& point);

// A page by itself: nothing is loaded from elsewhere. Points are shown with rising load.
std::string ToHtml(const RunInfo& run, std::vector<PointResult> points);

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_REPORTS_H_
