#include "server/engine_metrics.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "server/metric_families.h"

namespace quire {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Of the last step, on the clock of the world; 0: there was none.
double LastStepTimestamp(const StepTimes& times, TimeUs now) {
  if (times.last_step_at == kNever) return 0;
  const std::chrono::duration<double> since_epoch =
      std::chrono::system_clock::now().time_since_epoch();
  return since_epoch.count() - static_cast<double>(now - times.last_step_at) / 1e6;
}

ClientMetric HistogramOf(const StepTimes::Phase& phase, const char* name) {
  ClientMetric metric;
  metric.label = {{"phase", name}};
  uint64_t count = 0;
  for (size_t i = 0; i < phase.counts.size(); ++i) {
    count += static_cast<uint64_t>(phase.counts[i]);
    const bool is_last = i == StepTimes::kBoundsUs.size();
    metric.histogram.bucket.push_back(
        {.cumulative_count = count,
         .upper_bound = is_last ? std::numeric_limits<double>::infinity()
                                : static_cast<double>(StepTimes::kBoundsUs[i]) / 1e6});
  }
  metric.histogram.sample_count = count;
  metric.histogram.sample_sum = static_cast<double>(phase.sum_us) / 1e6;
  return metric;
}

}  // namespace

void AddEngineMetrics(const ServingModel& model, std::vector<MetricFamily>* families) {
  const SchedulerStats stats = model.engine->Stats();
  const StepTimes times = model.engine->Times();
  const MetricLabels of_model = {{"model_name", model.name}};
  const double total = std::max(stats.blocks_total, 1);
  AddGauge(families, "vllm:num_requests_running", "Sequences that hold KV blocks",
           {{of_model, static_cast<double>(stats.num_running)}});
  AddGauge(families, "vllm:num_requests_waiting", "Requests in the engine's queue",
           {{of_model, static_cast<double>(stats.num_waiting)}});
  AddGauge(families, "vllm:kv_cache_usage_perc",
           "KV blocks held by running sequences, of all; 1 is all of them",
           {{of_model, stats.blocks_held / total}});
  AddCounter(families, "vllm:num_preemptions_total",
             "Times that a running sequence lost its KV blocks to another",
             {{of_model, static_cast<double>(stats.num_preemptions)}});
  AddCounter(families, "vllm:prefix_cache_queries_total",
             "Prompt tokens that were looked for in the prefix cache",
             {{of_model, static_cast<double>(stats.prefix_query_tokens)}});
  AddCounter(families, "vllm:prefix_cache_hits_total", "Prompt tokens that were found there",
             {{of_model, static_cast<double>(stats.prefix_hit_tokens)}});
  const int32_t free = stats.blocks_total - stats.blocks_held - stats.blocks_cached;
  AddGauge(families, "quire_kv_blocks",
           "KV blocks: held by running sequences, cached for prefixes, free",
           {{{{"state", "held"}}, static_cast<double>(stats.blocks_held)},
            {{{"state", "cached"}}, static_cast<double>(stats.blocks_cached)},
            {{{"state", "free"}}, static_cast<double>(free)}});
  AddGauge(families, "quire_kv_blocks_leaked",
           "KV blocks held though nothing runs, or fenced though no step is under way: 0, or a bug",
           {{{}, static_cast<double>(stats.blocks_leaked)}});
  AddCounter(families, "quire_invariant_checks_total",
             "Plans and commits after which all of the scheduler's counts agreed",
             {{{}, static_cast<double>(stats.num_checks)}});
  AddGauge(families, "quire_queued_prefill_tokens", "Prompt tokens of requests in the queue",
           {{{}, static_cast<double>(stats.queued_prefill_tokens)}});
  AddGauge(families, "quire_last_step_timestamp_seconds",
           "When the engine's last step was over; 0: it had none yet",
           {{{}, LastStepTimestamp(times, model.engine->Now())}});
  MetricFamily steps{.name = "quire_step_seconds",
                     .help = "Time that steps of the engine took, by phase",
                     .type = MetricType::Histogram,
                     .metric = {}};
  for (size_t i = 0; i < kNumStepPhases; ++i) {
    steps.metric.push_back(HistogramOf(times.phases[i], kStepPhaseNames[i]));
  }
  families->push_back(std::move(steps));
}

}  // namespace quire
