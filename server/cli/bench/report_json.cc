#include "server/cli/bench/reports.h"

namespace quire::cli::bench {
namespace {

Json ToJson(const Distribution& values) {
  if (values.count == 0) return nullptr;
  return {{"count", values.count}, {"mean", values.mean}, {"p50", values.p50},
          {"p90", values.p90},     {"p95", values.p95},   {"p99", values.p99}};
}

Json OrNull(double value) { return value > 0 ? Json(value) : Json(); }

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

Json ToJson(const RunInfo& run, const PointResult& point) {
  Json json = {{"target", run.target.kind},
               {"model", run.target.model},
               {"backend", run.target.backend},
               {"seed", run.seed}};
  json["concurrency"] = point.concurrency > 0 ? Json(point.concurrency) : Json();
  json["rate"] = OrNull(point.rate);
  json["requests"] = point.requests;
  json["completed"] = point.completed;
  json["failed"] = point.failed;
  json["unfinished"] = point.unfinished;
  json["errors"] = point.errors;
  json["seconds"] = point.seconds;
  json["prompt_tokens"] = point.prompt_tokens;
  json["generated_tokens"] = point.generated_tokens;
  json["generated_tokens_per_s"] = point.generated_tokens_per_s;
  json["prompt_tokens_per_s"] = point.prompt_tokens_per_s;
  json["requests_per_s"] = point.requests_per_s;
  json["slo_ttft_ms"] = OrNull(run.slo.ttft_ms);
  json["slo_tpot_ms"] = OrNull(run.slo.tpot_ms);
  json["goodput_per_s"] = OrNull(point.goodput_per_s);
  json["ttft_ms"] = ToJson(point.ttft_ms);
  json["tpot_ms"] = ToJson(point.tpot_ms);
  json["itl_ms"] = ToJson(point.itl_ms);
  json["total_ms"] = ToJson(point.total_ms);
  json["read_bytes_per_s"] = OrNull(run.machine.read_bytes_per_s);
  json["operations_per_s"] = OrNull(PeakOperations(run));
  json["weight_bytes"] = run.target.weight_bytes > 0 ? Json(run.target.weight_bytes) : Json();
  json["decode_roofline"] = OrNull(point.decode_roofline);
  json["compute_roofline"] = OrNull(point.compute_roofline);
  return json;
}

}  // namespace quire::cli::bench
