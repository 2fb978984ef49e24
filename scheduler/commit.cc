// What a step's results change.
#include "absl/algorithm/container.h"

#include "kernels/check.h"
#include "scheduler/scheduler.h"

namespace quire {

// Empties committed_, too. The plan lives on until the next one is made.
const StepPlan& Scheduler::TakeOldestStep(uint64_t step_id) {
  QUIRE_CHECK(num_in_flight() > 0 && oldest_step_ == step_id, "steps commit in order");
  committed_.Restart();
  return plans_[oldest_step_++ % plans_.size()];
}

const CommitResult& Scheduler::Commit(uint64_t step_id, absl::Span<const SequenceResult> results,
                                      TimeUs now) {
  const StepPlan& plan = TakeOldestStep(step_id);
  QUIRE_CHECK(results.size() == plan.sequences.size(), "one result per planned sequence");
  cache_.SetNow(now);
  EndRequested(&committed_.ended);
  for (size_t i = 0; i < results.size(); ++i) {
    CommitPart(plan.sequences[i], results[i], &committed_);
  }
  pool_.CommitStep(step_id);
  EndOverdue(now, &committed_.ended);
  EndCall();
  return committed_;
}

const CommitResult& Scheduler::CommitFailed(uint64_t step_id, TimeUs now) {
  const StepPlan& plan = TakeOldestStep(step_id);
  cache_.SetNow(now);
  EndRequested(&committed_.ended);
  for (const PlannedSequence& part : plan.sequences) {
    if (Sequence* sequence = Find(part.id)) {
      EndSequence(sequence, EndReason::kEngineFailed, &committed_.ended);
    }
  }
  pool_.CommitStep(step_id);
  EndOverdue(now, &committed_.ended);
  EndCall();
  return committed_;
}

void Scheduler::CommitPart(const PlannedSequence& part, const SequenceResult& result,
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
