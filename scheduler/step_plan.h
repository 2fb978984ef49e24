#ifndef QUIRE_SCHEDULER_STEP_PLAN_H_
#define QUIRE_SCHEDULER_STEP_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

#include "scheduler/request.h"

namespace quire {

// One sequence's part of a step: rows for positions [first_position, first_position + num_tokens).
//
// `block_tables` and `request` are the scheduler's own: they live until its next call that is not
// const. Whoever needs them for longer copies them, as Batch does.
struct PlannedSequence {
  SequenceId id = 0;
  int32_t seq_slot = 0;
  int32_t first_position = 0;
  int32_t num_tokens = 0;
  // [num_tokens] inputs; -1 - seq_slot: the token that an uncommitted step draws for this slot.
  absl::InlinedVector<int32_t, 4> token_ids;
  // [num_groups][blocks up to the last position]; -1 where a block was given back (window).
  absl::Span<const std::vector<int32_t>> block_tables;
  // The last row's token is in the KV cache already (full prefix hit): nothing is written for it.
  bool last_row_cached = false;
  // Choices [first_choice, first_choice + num_draws) draw their next token from the last row.
  uint32_t first_choice = 0;
  int32_t num_draws = 0;
  // Every row is a prompt row whose logits, or whose next token's log-probability, are owed.
  bool wants_prompt_rows = false;
  int32_t next_token_id = -1;        // the token after the last row, where it is of the prompt
  const Request* request = nullptr;  // for how tokens are drawn and what is wanted of them

  // Rows whose K and V are written: the first ones.
  int32_t num_written() const { return num_tokens - (last_row_cached ? 1 : 0); }
};

struct BlockCopyPlan {
  int32_t source = 0;
  int32_t target = 0;
};

// A sequence is over. Usage is final here.
struct EndedSequence {
  SequenceId id = 0;
  uint32_t choice = 0;  // of the request
  EndReason reason = EndReason::kStop;
  int32_t stop_token_id = -1;  // the token that matched, for kStop
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // prompt tokens taken from the prefix cache at first admission
  int32_t completion_tokens = 0;
  int32_t num_preemptions = 0;
  TimeUs added_at = 0;
  TimeUs first_scheduled_at = kNever;  // kNever: never left the queue
};

// What one step will do, and what ended while planning it (deadlines, cancellations).
struct StepPlan {
  uint64_t step_id = 0;
  int32_t num_tokens = 0;  // sum over sequences; 0: nothing to run, nothing to commit
  std::vector<PlannedSequence> sequences;
  std::vector<BlockCopyPlan> copies;
  std::vector<EndedSequence> ended;

  // Empties it for another step. It keeps its memory.
  void Restart(uint64_t new_step_id);
  // "a:+16@0 b:+1@37(cached) copy:3>7 c=deadline": for tests and dumps.
  std::string Describe() const;
};

// "a" for 1, "z" for 26, "aa" for 27.
std::string SequenceName(SequenceId id);
// "a=stop c=deadline".
std::string DescribeEnded(absl::Span<const EndedSequence> ended);
const char* EndReasonName(EndReason reason);  // as in the proto, in lower case

// What the device said of one planned sequence, in the plan's order.
struct SequenceResult {
  // [num_draws] the tokens drawn; -1: there was none to draw.
  absl::Span<const int32_t> token_ids;
  bool finite = true;
};

struct NewToken {
  SequenceId id = 0;
  uint32_t choice = 0;  // of the request
  int32_t token_id = 0;
  int32_t index = 0;  // among the generated tokens of the sequence
};

// What Commit made of a step: tokens to deliver, then what ended.
struct CommitResult {
  std::vector<NewToken> tokens;
  std::vector<EndedSequence> ended;

  // Empties it for another step. It keeps its memory.
  void Restart();
};

}  // namespace quire

#endif  // QUIRE_SCHEDULER_STEP_PLAN_H_
