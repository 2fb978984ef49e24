#include "server/access_log.h"

#include <cstring>

#include "spdlog/spdlog.h"

#include "server/errors.h"
#include "server/log_fields.h"

namespace quire {
namespace {

constexpr char kGenerate[] = "Generate";

void AddOrigin(const CallOrigin& origin, LogFields* line) {
  if (!origin.request_id.empty()) line->Add("request_id", origin.request_id);
  line->Add("peer", origin.peer);
  if (origin.tenant != nullptr) line->Add("tenant", origin.tenant->name);
  if (!origin.trace_id.empty()) line->Add("trace_id", origin.trace_id);
}

void AddStatus(const absl::Status& status, LogFields* line) {
  line->Add("status", absl::StatusCodeToString(status.code()));
  if (!status.ok()) line->Add("reason", ReasonOf(status));
}

void AddUntold(int64_t num_untold, LogFields* line) {
  if (num_untold > 0) line->Add("untold_refusals", num_untold);
}

}  // namespace

void AccessLog::OnRecord(const RequestRecord& record) {
  int64_t num_untold = 0;
  const bool is_told = record.is_accepted || MayTellRefusal(Clock::now(), &num_untold);
  const auto level = is_told ? spdlog::level::info : spdlog::level::debug;
  if (!spdlog::should_log(level)) return;
  LogFields line("request");
  line.Add("method", kGenerate);
  AddOrigin(record.origin, &line);
  AddStatus(record.status, &line);
  if (record.status.ok()) line.Add("finish_reason", record.finish_reason);
  line.Add("prompt_tokens", record.prompt_tokens)
      .Add("cached_tokens", record.cached_tokens)
      .Add("completion_tokens", record.completion_tokens)
      .AddMs("queued_ms", record.queued_us);
  if (record.ttft_us) line.AddMs("ttft_ms", *record.ttft_us);
  line.AddMs("total_ms", record.total_us).Add("preemptions", record.num_preemptions);
  AddUntold(num_untold, &line);
  spdlog::log(level, line.line());
}

void AccessLog::OnCall(const char* method, const CallOrigin& origin, const absl::Status& status,
                       int64_t total_us) {
  int64_t num_untold = 0;
  const bool is_told = std::strcmp(method, kGenerate) == 0 && !status.ok() &&
                       MayTellRefusal(Clock::now(), &num_untold);
  const auto level = is_told ? spdlog::level::info : spdlog::level::debug;
  if (!spdlog::should_log(level)) return;
  LogFields line("request");
  line.Add("method", method);
  AddOrigin(origin, &line);
  AddStatus(status, &line);
  line.AddMs("total_ms", total_us);
  AddUntold(num_untold, &line);
  spdlog::log(level, line.line());
}

bool AccessLog::MayTellRefusal(Clock::time_point now, int64_t* num_untold) {
  std::lock_guard<std::mutex> lock(mu_);
  if (window_start_ == Clock::time_point::min() || now - window_start_ >= kWindow) {
    window_start_ = now;
    num_told_ = 0;
  }
  if (num_told_ == kMaxRefusals) {
    ++num_untold_;
    return false;
  }
  ++num_told_;
  *num_untold = num_untold_;
  num_untold_ = 0;
  return true;
}

}  // namespace quire
