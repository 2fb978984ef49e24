#include "scheduler/step_plan.h"

#include "absl/strings/str_cat.h"

namespace quire {

std::string SequenceName(SequenceId id) {
  if (id == 0) return "#0";
  std::string name;
  for (; id > 0; id = (id - 1) / 26) {
    name.insert(name.begin(), static_cast<char>('a' + (id - 1) % 26));
  }
  return name;
}

const char* EndReasonName(EndReason reason) {
  switch (reason) {
    case EndReason::kStop:
      return "stop";
    case EndReason::kLength:
      return "length";
    case EndReason::kAborted:
      return "aborted";
    case EndReason::kCancelled:
      return "cancelled";
    case EndReason::kTimeLimit:
      return "time_limit";
    case EndReason::kDeadline:
      return "deadline";
    case EndReason::kQueueTimeout:
      return "queue_timeout";
    case EndReason::kSlowConsumer:
      return "slow_consumer";
    case EndReason::kDraining:
      return "draining";
    case EndReason::kNumericalFault:
      return "numerical_fault";
    case EndReason::kNoTokenAllowed:
      return "no_token_allowed";
    case EndReason::kEngineFailed:
      return "engine_failed";
  }
  return "unknown";
}

void StepPlan::Restart(uint64_t new_step_id) {
  step_id = new_step_id;
  num_tokens = 0;
  sequences.clear();
  copies.clear();
  ended.clear();
}

void CommitResult::Restart() {
  tokens.clear();
  ended.clear();
}

std::string StepPlan::Describe() const {
  std::string text;
  const auto space = [&text] { return text.empty() ? "" : " "; };
  for (const PlannedSequence& sequence : sequences) {
    absl::StrAppend(&text, space(), SequenceName(sequence.id), ":+", sequence.num_tokens, "@",
                    sequence.first_position, sequence.last_row_cached ? "(cached)" : "");
  }
  for (const BlockCopyPlan& copy : copies) {
    absl::StrAppend(&text, space(), "copy:", copy.source, ">", copy.target);
  }
  absl::StrAppend(&text, text.empty() || ended.empty() ? "" : " ", DescribeEnded(ended));
  return text;
}

std::string DescribeEnded(absl::Span<const EndedSequence> ended) {
  std::string text;
  for (const EndedSequence& end : ended) {
    absl::StrAppend(&text, text.empty() ? "" : " ", SequenceName(end.id), "=",
                    EndReasonName(end.reason));
  }
  return text;
}

}  // namespace quire
