#ifndef QUIRE_SCHEDULER_BUDGET_H_
#define QUIRE_SCHEDULER_BUDGET_H_

#include <cstdint>

namespace quire {

struct SchedulerConfig;

// StepBudget says how many rows a step can still take: tokens, logit rows, and the time that rows
// cost. Which sequence gets them is the scheduler's decision.
//
// One row is set aside for each running sequence before anything else is given out, so none of
// them starves; what a sequence gets beyond it comes from the rest.
class StepBudget {
 public:
  // While anything decodes, the step is kept under the target inter-token latency, else under two
  // seconds. A chunk of block_size rows is allowed in any case: where decoding alone takes longer,
  // prompts must not starve.
  StepBudget(const SchedulerConfig& config, bool anything_decodes);

  // One row at `position`, with logits. REQUIRES: at most max_num_seqs of them.
  void SetAside(int32_t position);
  void GiveBack(int32_t position);
  // The most rows from `position` on that the rest allows; `with_logits`: of each row.
  int32_t LargestChunk(int32_t position, int32_t wanted, bool with_logits) const;
  bool HasLogitRow() const { return logit_rows_left_ > 0; }
  void Spend(int32_t position, int32_t num_rows, int32_t num_logit_rows);

 private:
  double Cost(int32_t position, int32_t num_rows) const;  // us
  int32_t RowsInTime(int32_t position, int32_t wanted) const;

  const double us_per_row_;
  const double us_per_attended_;
  const bool limits_time_;
  int32_t tokens_left_;
  int32_t logit_rows_left_;
  int32_t rows_in_any_case_;
  double us_left_;
};

}  // namespace quire

#endif  // QUIRE_SCHEDULER_BUDGET_H_
