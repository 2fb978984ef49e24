#ifndef QUIRE_SERVER_METRICS_H_
#define QUIRE_SERVER_METRICS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include <prometheus/metric_family.h>

#include "server/request_record.h"

namespace prometheus {
class Counter;
class Histogram;
class Registry;
}  // namespace prometheus

namespace quire {

// What has the server been asked, and what became of it? Counts requests for /metrics. What the
// engine and the process know is not counted here but read when it is asked for
// (engine_metrics.h, process_metrics.h). deploy/METRICS.md lists all names.
//
// Labels have no values but those of fixed lists, and the model's name. Any thread; nothing here is
// called by the engine's. Counters are atomic, histograms have a lock for moments.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  // Makes the metrics that carry the model's name. Call once, before the first request.
  void SetModel(const std::string& name);

  // A call that ended with another status than OK before the engine had accepted it.
  void OnRejected(absl::string_view reason);
  // The first token of a request was taken out to its stream.
  void OnFirstToken(double ttft_seconds);
  void OnNextToken(double seconds_since_last);
  void OnPromptTokens(int64_t n);
  void OnGenerationTokens(int64_t n);
  // All else about a request, once.
  void OnRecord(const RequestRecord& record);

  std::vector<prometheus::MetricFamily> Collect() const;

 private:
  struct OfModel;
  using Counters = absl::flat_hash_map<absl::string_view, prometheus::Counter*>;

  static void Count(const Counters& counters, absl::string_view reason);

  const std::unique_ptr<prometheus::Registry> registry_;
  Counters rejections_;
  Counters failures_;
  prometheus::Counter* cached_tokens_ = nullptr;
  std::unique_ptr<OfModel> of_model_;  // null until SetModel
};

// The text that Prometheus reads.
std::string MetricsText(const std::vector<prometheus::MetricFamily>& families);

}  // namespace quire

#endif  // QUIRE_SERVER_METRICS_H_
