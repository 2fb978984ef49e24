#include "server/cli/bench/sweep.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace quire::cli::bench {
namespace {

constexpr int64_t kMostByItself = 100'000;  // requests that nobody counted out

// The points of a sweep, without figures.
std::vector<PointResult> PointsOf(const Options& options) {
  std::vector<PointResult> points;
  for (const int32_t concurrency : options.concurrency) {
    points.emplace_back().concurrency = concurrency;
  }
  for (const double rate : options.rates) points.emplace_back().rate = rate;
  return points;
}

int64_t RequestsOf(const Options& options, const Workload& workload, const PointResult& point) {
  if (options.num_requests > 0) return options.num_requests;
  if (workload.num_lines() > 0) return workload.num_lines();
  if (point.concurrency > 0) return std::max<int64_t>(8, 4 * int64_t{point.concurrency});
  const double count = std::ceil(30 * point.rate);
  return std::clamp(static_cast<int64_t>(count), int64_t{10}, kMostByItself);
}

Load LoadOf(const Options& options, const PointResult& point, int64_t count) {
  Load load{.concurrency = point.concurrency,
            .arrivals_s = {},
            .max_seconds = 1e-3 * static_cast<double>(options.max_point_ms)};
  if (point.concurrency == 0) {
    load.arrivals_s = Arrivals(options.arrivals, count, point.rate, options.workload.seed);
  }
  return load;
}

// Requests that are not measured, one after the other.
void RunBefore(const Options& options, LoadGenerator& generator,
               const std::vector<BenchRequest>& requests) {
  PointResult one_at_once;
  one_at_once.concurrency = 1;
  generator.Run(requests, LoadOf(options, one_at_once, 0), [](const LoadProgress&) {});
}

}  // namespace

absl::Status RunSweep(const Options& options, const RunInfo& run, const Workload& workload,
                      Target& target, LoadGenerator& generator, const SweepListener& listener) {
  const int32_t vocab_size = target.info().vocab_size;
  RunBefore(options, generator, workload.WarmUps(options.num_warmups, vocab_size));
  const std::vector<PointResult> points = PointsOf(options);
  for (int i = 0; i < static_cast<int>(points.size()); ++i) {
    const PointResult& asked = points[i];
    const int64_t count = RequestsOf(options, workload, asked);
    const auto requests = workload.Requests(i, count, vocab_size);
    if (!requests.ok()) return requests.status();
    if (options.prime) RunBefore(options, generator, {workload.Priming(i, vocab_size)});
    if (generator.is_interrupted()) return absl::OkStatus();
    const LoadResult load =
        generator.Run(*requests, LoadOf(options, asked, count),
                      [&](const LoadProgress& progress) { listener.on_progress(asked, progress); });
    PointResult point = Evaluate(load, run.slo);
    point.concurrency = asked.concurrency;
    point.rate = asked.rate;
    if (run.read_bytes_per_s > 0 && run.target.weight_bytes > 0 && point.tpot_ms.p50 > 0) {
      const double least_s = static_cast<double>(run.target.weight_bytes) / run.read_bytes_per_s;
      point.decode_roofline = 1e3 * least_s / point.tpot_ms.p50;
    }
    if (!listener.on_point(i, point, load)) return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace quire::cli::bench
