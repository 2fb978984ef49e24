#ifndef QUIRE_ENGINE_BATCH_H_
#define QUIRE_ENGINE_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

#include "kernels/backend.h"
#include "scheduler/step_plan.h"

namespace quire {

// Batch turns a StepPlan into the flat arrays of a HostStep, and remembers where each planned
// sequence's logits and draw will be found in the StepResult.
//
// Owned by the engine, engine thread only. Memory is taken once, for the limits it was made with.
class Batch {
 public:
  Batch(const StepLimits& limits, int num_groups, int block_size);

  // What a request's rules do to the next token of a sequence (TokenEdits); valid until Collect.
  using EditsOf = absl::FunctionRef<LogitEdits(SequenceId id)>;

  // Rebuilds all arrays. REQUIRES: the plan is within the limits.
  void Build(const StepPlan& plan, EditsOf edits_of);

  // Valid until the next Build.
  const HostStep& step() const { return step_; }

  // Where the answers to plan.sequences[i] are, as indices into the spans of StepResult; -1: none.
  struct Outputs {
    int first_sample = -1;  // into StepResult::sampled, one per draw
    // Into StepResult::logits: one per row, and that of the row which draws.
    int first_prompt_tap = -1;
    int sample_tap = -1;
    // Into StepResult::logprobs: one per row but the prompt's last, and one per draw.
    int first_prompt_logprob = -1;
    int first_logprob = -1;
  };
  const std::vector<Outputs>& outputs() const { return outputs_; }  // [plan.sequences.size()]

 private:
  void AppendRows(const PlannedSequence& sequence);
  void AppendLogitRows(const PlannedSequence& sequence);
  void AppendPromptLogprobs(const PlannedSequence& sequence, int first_logit_row);
  void AppendDraws(const PlannedSequence& sequence, EditsOf edits_of);
  void FillGroupArrays(const StepPlan& plan);

  const int num_groups_;
  const int block_size_;

  std::vector<int32_t> token_ids_;     // [num_tokens]
  std::vector<int32_t> positions_;     // [num_tokens]
  std::vector<int32_t> slots_;         // [num_groups, num_tokens]
  std::vector<int32_t> query_starts_;  // [num_seqs + 1]
  std::vector<int32_t> block_tables_;  // [num_groups, num_seqs, max_blocks]
  std::vector<int32_t> logit_rows_;    // [num_logit_rows]
  std::vector<int32_t> logit_taps_;    // [num_taps]
  std::vector<SampleRow> samples_;     // [num_samples]
  std::vector<LogprobRow> logprobs_;   // [num_logprobs]
  std::vector<BlockCopy> copies_;      // [num_copies]
  std::vector<Outputs> outputs_;       // [num_seqs]
  HostStep step_;
};

}  // namespace quire

#endif  // QUIRE_ENGINE_BATCH_H_
