#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "server/cli/bench/reports.h"

namespace quire::cli::bench {
namespace {

std::string Row(const char* name, const Distribution& ms) {
  if (ms.count == 0) return absl::StrFormat("  %-8s%9s\n", name, "-");
  return absl::StrFormat("  %-8s%9.2f%9.2f%9.2f%9.2f%9.2f\n", name, ms.mean, ms.p50, ms.p90, ms.p95,
                         ms.p99);
}

}  // namespace

double PeakOperations(const RunInfo& run) {
  const std::optional<NumericsMode> mode = NumericsModeNamed(run.target.numerics);
  return mode.has_value() ? run.machine.operations_per_s[static_cast<size_t>(*mode)] : 0;
}

std::string NameOf(const PointResult& point) {
  if (point.concurrency > 0) return absl::StrCat("concurrency ", point.concurrency);
  return absl::StrCat(point.rate, " requests/s");
}

std::string ToText(const RunInfo& run) {
  const TargetInfo& target = run.target;
  std::string text = absl::StrCat(target.model, ", ", target.backend, ", ",
                                  target.kind == "engine" ? "in process" : "over gRPC", "\n");
  if (run.machine.read_bytes_per_s > 0) {
    absl::StrAppendFormat(&text, "memory is read at %.1f GB/s, the weights have %.1f MB\n",
                          run.machine.read_bytes_per_s / 1e9,
                          static_cast<double>(target.weight_bytes) / 1e6);
  }
  if (const double peak = PeakOperations(run); peak > 0) {
    absl::StrAppendFormat(&text, "instructions of %s multiply at %.0f billion operations/s\n",
                          target.numerics, peak / 1e9);
  }
  return text;
}

std::string ToText(const PointResult& point) {
  std::string text = absl::StrFormat("\n%s: %d of %d requests in %.2f s", NameOf(point),
                                     point.completed, point.requests, point.seconds);
  if (point.failed > 0) absl::StrAppend(&text, ", ", point.failed, " failed");
  if (point.unfinished > 0) absl::StrAppend(&text, ", ", point.unfinished, " unfinished");
  absl::StrAppend(&text, "\n");
  for (const auto& [error, count] : point.errors) {
    absl::StrAppend(&text, "  ", error, ": ", count, "\n");
  }
  absl::StrAppendFormat(&text, "  %.1f tokens/s generated, %.1f prompt tokens/s, %.2f requests/s",
                        point.generated_tokens_per_s, point.prompt_tokens_per_s,
                        point.requests_per_s);
  if (point.goodput_per_s) {
    absl::StrAppendFormat(&text, ", %.2f within the SLO", *point.goodput_per_s);
  }
  absl::StrAppend(&text, "\n");
  if (point.decode_roofline) {
    absl::StrAppendFormat(&text,
                          "  median TPOT: %.0f %% of the speed that reading weights allows\n",
                          100 * *point.decode_roofline);
  }
  if (point.compute_roofline) {
    absl::StrAppendFormat(&text, "  all products: %.0f %% of the speed that multiplying allows\n",
                          100 * *point.compute_roofline);
  }
  absl::StrAppend(&text, "  ms           mean      p50      p90      p95      p99\n",
                  Row("TTFT", point.ttft_ms), Row("TPOT", point.tpot_ms), Row("ITL", point.itl_ms),
                  Row("total", point.total_ms));
  return text;
}

}  // namespace quire::cli::bench
