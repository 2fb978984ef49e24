// What a step's results change.
#include "absl/algorithm/container.h"

#include "kernels/check.h"
#include "scheduler/scheduler.h"

namespace quire {

Scheduler::InFlightStep Scheduler::TakeOldestStep(uint64_t step_id) {
  QUIRE_CHECK(!in_flight_.empty() && in_flight_.front().id == step_id, "steps commit in order");
  InFlightStep step = std::move(in_flight_.front());
  in_flight_.pop_front();
  return step;
}

CommitResult Scheduler::Commit(uint64_t step_id, absl::Span<const SequenceResult> results,
                               TimeUs now) {
  const InFlightStep step = TakeOldestStep(step_id);
  QUIRE_CHECK(results.size() == step.parts.size(), "one result per planned sequence");
  cache_.SetNow(now);
  CommitResult out;
  EndRequested(&out.ended);
  out.tokens.reserve(results.size());
  for (size_t i = 0; i < results.size(); ++i) CommitPart(step.parts[i], results[i], &out);
  pool_.CommitStep(step_id);
  EndOverdue(now, &out.ended);
  EndCall();
  return out;
}

CommitResult Scheduler::CommitFailed(uint64_t step_id, TimeUs now) {
  const InFlightStep step = TakeOldestStep(step_id);
  cache_.SetNow(now);
  CommitResult out;
  EndRequested(&out.ended);
  for (const InFlightPart& part : step.parts) {
    if (Sequence* sequence = Find(part.id)) {
      EndSequence(sequence, EndReason::kEngineFailed, &out.ended);
    }
  }
  pool_.CommitStep(step_id);
  EndOverdue(now, &out.ended);
  EndCall();
  return out;
}

void Scheduler::CommitPart(const InFlightPart& part, const SequenceResult& result,
                           CommitResult* out) {
  Sequence* const sequence = Find(part.id);
  if (sequence == nullptr) return;
  --sequence->num_steps_in_flight;
  if (!result.finite) {
    EndSequence(sequence, EndReason::kNumericalFault, &out->ended);
    return;
  }
  const int32_t end = part.first_position + part.num_tokens;
  if (part.wants_prompt_rows) sequence->num_prompt_rows_told = end;
  // One that was preempted meanwhile keeps its token, but has no blocks to publish.
  if (sequence->is_running) {
    sequence->num_committed_tokens = end;
    PublishBlocks(sequence);
  }
  if (part.num_draws > 0) {
    --sequence->num_draws_in_flight;
    QUIRE_CHECK(result.token_ids.size() == static_cast<size_t>(part.num_draws), "a token per draw");
    // Choices beside the first come into being before it may end.
    drawn_.assign(1, sequence);
    for (int32_t i = 1; i < part.num_draws; ++i) drawn_.push_back(AddChoice(*sequence, i));
    sequence->num_unborn = 0;
    for (int32_t i = 0; i < part.num_draws; ++i) CommitToken(drawn_[i], result.token_ids[i], out);
  } else if (sequence->max_tokens == 0 && end == sequence->num_prompt_tokens) {
    EndSequence(sequence, EndReason::kLength, &out->ended);
  }
}

void Scheduler::CommitToken(Sequence* sequence, int32_t token_id, CommitResult* out) {
  if (token_id < 0) {
    EndSequence(sequence, EndReason::kNoTokenAllowed, &out->ended);
    return;
  }
  if (!sequence->is_running) ++queued_tokens_;
  out->tokens.push_back({sequence->id, sequence->choice, token_id, sequence->num_generated()});
  sequence->AppendToken(token_id);
  const bool is_stop = absl::c_linear_search(sequence->stop_token_ids, token_id);
  if (is_stop) {
    EndSequence(sequence, EndReason::kStop, &out->ended, token_id);
  } else if (sequence->num_generated() >= sequence->max_tokens) {
    EndSequence(sequence, EndReason::kLength, &out->ended);
  }
}

}  // namespace quire
