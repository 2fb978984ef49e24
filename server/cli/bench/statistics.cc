#include "server/cli/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace quire::cli::bench {
namespace {

double PercentileOf(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  if (below + 1 == sorted.size()) return sorted[below];
  return std::lerp(sorted[below], sorted[below + 1], position - static_cast<double>(below));
}

// Values of all requests, before they are summarised.
struct Samples {
  std::vector<double> ttft_ms;
  std::vector<double> tpot_ms;
  std::vector<double> itl_ms;
  std::vector<double> total_ms;
  int64_t num_good = 0;
};

int64_t NumTokens(const RequestRecord& record) {
  int64_t count = 0;
  for (const Delivery& delivery : record.deliveries) count += delivery.count;
  return count;
}

// REQUIRES: it ended well.
void AddTo(const RequestRecord& record, const Slo& slo, Samples* samples) {
  const std::vector<Delivery>& deliveries = record.deliveries;
  const double ttft_ms = 1e3 * (deliveries.front().at_s - record.due_s);
  samples->ttft_ms.push_back(ttft_ms);
  samples->total_ms.push_back(1e3 * (record.end_s - record.due_s));
  for (size_t i = 1; i < deliveries.size(); ++i) {
    samples->itl_ms.push_back(1e3 * (deliveries[i].at_s - deliveries[i - 1].at_s));
  }
  double tpot_ms = 0;  // of a single token there is none
  if (record.new_tokens > 1) {
    tpot_ms = 1e3 * (deliveries.back().at_s - deliveries.front().at_s) / (record.new_tokens - 1);
    samples->tpot_ms.push_back(tpot_ms);
  }
  const bool is_good =
      (slo.ttft_ms == 0 || ttft_ms <= slo.ttft_ms) && (slo.tpot_ms == 0 || tpot_ms <= slo.tpot_ms);
  if (is_good) ++samples->num_good;
}

}  // namespace

Distribution Summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {.count = static_cast<int64_t>(values.size()),
          .mean = std::accumulate(values.begin(), values.end(), 0.0) /
                  static_cast<double>(values.size()),
          .p50 = PercentileOf(values, 0.50),
          .p90 = PercentileOf(values, 0.90),
          .p95 = PercentileOf(values, 0.95),
          .p99 = PercentileOf(values, 0.99)};
}

PointResult Evaluate(const LoadResult& load, const Slo& slo) {
  PointResult result;
  result.requests = load.requests;
  result.seconds = load.end_s - load.begin_s;
  Samples samples;
  for (const RequestRecord& record : load.records) {
    const int64_t num_tokens = NumTokens(record);
    result.generated_tokens += num_tokens;
    if (num_tokens > 0) result.prompt_tokens += record.prompt_tokens;
    if (record.end == RequestRecord::End::kDone) {
      ++result.completed;
      AddTo(record, slo, &samples);
    } else if (record.end == RequestRecord::End::kFailed) {
      ++result.failed;
      ++result.errors[record.error];
    }
  }
  result.unfinished = result.requests - result.completed - result.failed;
  if (result.seconds > 0) {
    const auto per_second = [&](int64_t count) {
      return static_cast<double>(count) / result.seconds;
    };
    result.generated_tokens_per_s = per_second(result.generated_tokens);
    result.prompt_tokens_per_s = per_second(result.prompt_tokens);
    result.requests_per_s = per_second(result.completed);
    if (slo.ttft_ms > 0 || slo.tpot_ms > 0) result.goodput_per_s = per_second(samples.num_good);
  }
  result.ttft_ms = Summarize(std::move(samples.ttft_ms));
  result.tpot_ms = Summarize(std::move(samples.tpot_ms));
  result.itl_ms = Summarize(std::move(samples.itl_ms));
  result.total_ms = Summarize(std::move(samples.total_ms));
  return result;
}

}  // namespace quire::cli::bench
