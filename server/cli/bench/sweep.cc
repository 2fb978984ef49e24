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

void CompareWithMachine(const RunInfo& run, PointResult* point) {
  const TargetInfo& target = run.target;
  const double read = run.machine.read_bytes_per_s;
  if (read > 0 && target.weight_bytes > 0 && point->tpot_ms.p50 > 0) {
    const double least_s = static_cast<double>(target.weight_bytes) / read;
    point->decode_roofline = 1e3 * least_s / point->tpot_ms.p50;
  }
  const double peak = PeakOperations(run);
  if (peak > 0 && target.num_layer_weights > 0 && point->seconds > 0) {
    // The last token of a request is computed no further.
    const int64_t rows = point->prompt_tokens + point->generated_tokens - point->completed;
    const int64_t operations =
        2 * (rows * target.num_layer_weights + point->generated_tokens * target.num_head_weights);
    point->compute_roofline = static_cast<double>(operations) / peak / point->seconds;
  }
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
    CompareWithMachine(run, &point);
    if (!listener.on_point(i, point, load)) return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace quire::cli::bench
