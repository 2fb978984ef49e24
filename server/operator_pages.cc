#include "server/operator_pages.h"

#include <string>
#include <utility>
#include <vector>

#include "server/engine_metrics.h"
#include "server/grpc_endpoint.h"
#include "server/metric_families.h"
#include "server/metrics.h"
#include "server/process_metrics.h"
#include "server/server_core.h"

namespace quire {
namespace {

HttpAnswer Probe(const std::string& why_not) {
  if (why_not.empty()) return {.body = "ok\n"};
  return {.status = 503, .body = why_not + "\n"};
}

HttpAnswer MetricsPage(const ServerCore& core) {
  std::vector<prometheus::MetricFamily> families = core.metrics().Collect();
  AddGauge(&families, "quire_requests_open", "Calls that count against --max-concurrent-requests",
           {{{}, static_cast<double>(core.num_calls())}});
  AddGauge(&families, "quire_build_info", "1, with the versions that answer",
           {{{{"version", QUIRE_VERSION}, {"grpc", GrpcVersion()}}, 1}});
  const auto& num_dropped_log_lines = core.config().num_dropped_log_lines;
  AddCounter(&families, "quire_log_lines_dropped_total",
             "Lines of the log that were not written, because stderr was not read or failed",
             {{{}, num_dropped_log_lines ? static_cast<double>(num_dropped_log_lines()) : 0}});
  if (const ServingModel* model = core.model()) AddEngineMetrics(*model, &families);
  AddProcessMetrics(&families);
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = MetricsText(families)};
}

}  // namespace

std::optional<HttpAnswer> MakeOperatorPage(const ServerCore& core, absl::string_view path) {
  if (path == "/metrics") return MetricsPage(core);
  if (path == "/livez") return Probe(core.WhyNotAlive());
  if (path == "/readyz") return Probe(core.WhyNotReady());
  if (path == "/startupz") return Probe(core.model() == nullptr ? "loading" : "");
  return std::nullopt;
}

}  // namespace quire
