#include "server/choice.h"

#include "server/errors.h"

namespace quire {
namespace {

v1::FinishReason FinishReasonOf(EndReason reason) {
  switch (reason) {
    case EndReason::kStop:
      return v1::FINISH_REASON_STOP;
    case EndReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case EndReason::kAborted:
      return v1::FINISH_REASON_ABORTED;
    case EndReason::kTimeLimit:
      return v1::FINISH_REASON_TIME_LIMIT;
    default:
      return v1::FINISH_REASON_UNSPECIFIED;
  }
}

}  // namespace

Choice::Choice(uint32_t index, const TextRules& rules, bool stream)
    : index_(index), stream_(stream), wants_logprobs_(rules.wants_logprobs), deltas_(rules) {}

bool Choice::Add(int32_t token_id, const LogprobList* scores, size_t score) {
  if (is_stopped()) return false;
  deltas_.Add(token_id, scores, score);
  return is_stopped();
}

bool Choice::is_failed() const { return end_ && !is_stopped() && !StatusOfEnd(*end_).ok(); }

v1::FinishReason Choice::finish_reason() const {
  return is_stopped() ? v1::FINISH_REASON_STOP : FinishReasonOf(end_->reason);
}

bool Choice::Next(v1::GenerateResponse* response) {
  if (is_told_) return false;
  const bool is_over = end_ || is_stopped();
  if (is_over && !is_flushed_) {
    is_flushed_ = true;
    deltas_.Flush();
  }
  const bool is_good = is_over && !is_failed();
  // What a failed stream has shown so far is completed; one that shows nothing before the end shows
  // nothing at all.
  if (deltas_.HasDelta() && (stream_ || is_good)) {
    v1::Delta* delta = response->mutable_delta();
    delta->set_index(index_);
    deltas_.Take(delta);
    return true;
  }
  if (!is_good) return false;
  is_told_ = true;
  FillFinished(response->mutable_choice_finished());
  return true;
}

void Choice::FillFinished(v1::ChoiceFinished* finished) const {
  finished->set_index(index_);
  finished->set_completion_tokens(static_cast<uint32_t>(deltas_.num_tokens()));
  if (wants_logprobs_) finished->set_cumulative_logprob(deltas_.cumulative_logprob());
  finished->set_finish_reason(finish_reason());
  if (const std::string* stop = deltas_.stop_string()) {
    finished->set_string(*stop);
    return;
  }
  if (end_->reason == EndReason::kStop && end_->stop_token_id >= 0) {
    finished->set_token_id(static_cast<uint32_t>(end_->stop_token_id));
  }
}

}  // namespace quire
