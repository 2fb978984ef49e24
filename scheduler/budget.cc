#include "scheduler/budget.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "scheduler/scheduler.h"

namespace quire {

namespace {

// With nobody to keep waiting between tokens, a step may take longer; but cancellations, deadlines
// and the heartbeat wait for its end.
constexpr TimeUs kTargetWithoutDecoders = 2'000'000;

}  // namespace

StepBudget::StepBudget(const SchedulerConfig& config, bool anything_decodes)
    : us_per_row_(config.us_per_row),
      us_per_attended_(config.us_per_attended),
      limits_time_(config.us_per_row > 0 || config.us_per_attended > 0),
      tokens_left_(config.max_num_batched_tokens),
      logit_rows_left_(config.max_logit_rows),
      rows_in_any_case_(config.block_size),
      us_left_(static_cast<double>(anything_decodes
                                       ? config.target_itl_us
                                       : std::max(config.target_itl_us, kTargetWithoutDecoders)) -
               config.us_per_step) {}

double StepBudget::Cost(int32_t position, int32_t num_rows) const {
  const double n = num_rows;
  const double attended = n * position + n * (n + 1) / 2;  // row i sees position + i + 1 keys
  return n * us_per_row_ + attended * us_per_attended_;
}

void StepBudget::SetAside(int32_t position) {
  --tokens_left_;
  --logit_rows_left_;
  us_left_ -= Cost(position, 1);
  QUIRE_CHECK(tokens_left_ >= 0 && logit_rows_left_ >= 0, "at most max_num_seqs rows set aside");
}

void StepBudget::GiveBack(int32_t position) {
  ++tokens_left_;
  ++logit_rows_left_;
  us_left_ += Cost(position, 1);
}

int32_t StepBudget::RowsInTime(int32_t position, int32_t wanted) const {
  if (Cost(position, wanted) <= us_left_) return wanted;
  if (us_left_ <= 0) return 0;
  // The largest n with Cost(position, n) <= us_left_: a quadratic, then exact by stepping.
  const double a = us_per_attended_ / 2;
  const double b = us_per_row_ + us_per_attended_ * (position + 0.5);
  const double n = a > 0 ? (std::sqrt(b * b + 4 * a * us_left_) - b) / (2 * a) : us_left_ / b;
  auto rows = std::min(wanted, static_cast<int32_t>(n) + 1);
  while (rows > 0 && Cost(position, rows) > us_left_) --rows;
  return rows;
}

int32_t StepBudget::LargestChunk(int32_t position, int32_t wanted, bool with_logits) const {
  int32_t rows = std::min(wanted, tokens_left_);
  if (with_logits) rows = std::min(rows, logit_rows_left_);
  if (!limits_time_ || rows <= rows_in_any_case_) return rows;
  return std::max(rows_in_any_case_, RowsInTime(position, rows));
}

void StepBudget::Spend(int32_t position, int32_t num_rows, int32_t num_logit_rows) {
  tokens_left_ -= num_rows;
  logit_rows_left_ -= num_logit_rows;
  us_left_ -= Cost(position, num_rows);
  rows_in_any_case_ = std::max(0, rows_in_any_case_ - num_rows);
  QUIRE_CHECK(tokens_left_ >= 0 && logit_rows_left_ >= 0, "spent what was allowed");
}

}  // namespace quire
