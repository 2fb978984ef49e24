// How a generation ends, and what of it is counted and logged.
#include <cstdint>
#include <utility>

#include "server/errors.h"
#include "server/generation.h"
#include "server/metrics.h"

namespace quire {
namespace {

double Seconds(TimeUs from, TimeUs to) { return static_cast<double>(to - from) / 1e6; }

// The words of vLLM's metrics.
const char* FinishWord(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_ABORTED:
      return "abort";
    case v1::FINISH_REASON_TIME_LIMIT:
      return "time_limit";
    default:
      return "other";
  }
}

}  // namespace

void Generation::CountGap(uint32_t choice, TimeUs at) {
  TimeUs& last_at = last_token_at_[choice];
  if (last_at != 0) host_.metrics().OnNextToken(Seconds(last_at, at));
  last_at = at;
}

void Generation::UseQuota(int64_t num_tokens) const {
  if (origin_.tenant != nullptr) origin_.tenant->quota->UseTokens(num_tokens, engine_.Now());
}

void Generation::CountLocked(int64_t num_completion_tokens) {
  if (counted_tokens_ == 0 && num_completion_tokens > 0) {
    host_.metrics().OnFirstToken(Seconds(arrived_at_, seen_.first_token_at));
    host_.metrics().OnPromptTokens(static_cast<int64_t>(engine_request_->prompt_token_ids.size()));
    prompt_is_counted_ = true;
  }
  CountTokensLocked(num_completion_tokens);
}

void Generation::CountTokensLocked(int64_t num_completion_tokens) {
  host_.metrics().OnGenerationTokens(num_completion_tokens - counted_tokens_);
  UseQuota(num_completion_tokens - counted_tokens_);
  counted_tokens_ = num_completion_tokens;
}

void Generation::FinishLocked(absl::Status status, int64_t completion_tokens) {
  waiting_since_ = engine_.Now();
  AddMetadata(status, "request_id", request_id());
  SettleLocked({.status = status, .completion_tokens = completion_tokens, .at = waiting_since_});
  writer_->Finish(status);
}

void Generation::SettleLocked(Settled settled) {
  finished_ = true;
  host_.OnFinished(*this, settled.status);
  settled_ = std::move(settled);
  RecordIfOverLocked();
}

void Generation::RecordIfOverLocked() {
  if (!settled_) return;
  EngineEnds ends;
  TimeUs first_token_at = 0;
  {
    std::lock_guard<std::mutex> lock(inbox_mu_);
    ends = engine_ends_;
    first_token_at = inbox_.first_token_at;
  }
  if (!ends.is_refused && ends.num_ended < num_ends_due_) return;
  RequestRecord record{.origin = origin_,
                       .status = std::move(settled_->status),
                       .finish_reason = FinishWord(settled_->finish_reason),
                       .is_accepted = ends.is_accepted,
                       .is_started = ends.is_accepted && ends.first.first_scheduled_at != kNever,
                       .completion_tokens = settled_->completion_tokens,
                       .num_preemptions = ends.num_preemptions,
                       .total_us = settled_->at - arrived_at_};
  record.queued_us =
      record.is_started ? ends.first.first_scheduled_at - arrived_at_ : record.total_us;
  if (record.completion_tokens > 0) {
    record.ttft_us = first_token_at - arrived_at_;
    if (counted_tokens_ == 0) host_.metrics().OnFirstToken(Seconds(arrived_at_, first_token_at));
  }
  // An end with OK tells its usage also where it never left the queue.
  if (record.is_started || (record.is_accepted && record.status.ok())) {
    record.prompt_tokens = ends.first.prompt_tokens;
    record.cached_tokens = ends.first.cached_tokens;
    if (!prompt_is_counted_) host_.metrics().OnPromptTokens(record.prompt_tokens);
  }
  CountTokensLocked(record.completion_tokens);
  settled_.reset();
  host_.OnRecord(record);
}

}  // namespace quire
