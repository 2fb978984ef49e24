#include "tests/sim/plan_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace quire {

void PlanRules::Before(const Scheduler& scheduler, const Ledger& ledger, bool in_flight) {
  ran_.clear();
  decoded_.clear();
  never_planned_.clear();
  in_flight_ = in_flight;
  for (const auto& [id, live] : ledger.live()) {
    const Sequence* const sequence = scheduler.Look(id);
    if (sequence == nullptr) continue;
    if (sequence->is_running) ran_.insert(id);
    const int32_t drawn = live.num_told + (sequence->num_draws_in_flight > 0 ? 1 : 0);
    const int32_t last = live.num_prompt() + drawn - 1;
    if (sequence->is_running && drawn > 0 && drawn < live.request->max_tokens &&
        sequence->num_computed_tokens == last) {
      decoded_.insert(id);
    }
    if (live.first_scheduled_at == kNever && live.choice == 0) never_planned_.insert(id);
  }
  num_waiting_ = scheduler.Stats().num_waiting;
  num_preemptions_ = scheduler.Stats().num_preemptions;
}

void PlanRules::After(const Scheduler& scheduler, const StepPlan& plan, Ledger* ledger) {
  planned_.clear();
  for (const PlannedSequence& planned : plan.sequences) planned_.insert(planned.id);
  has_preempted_ = scheduler.Stats().num_preemptions != num_preemptions_;
  CheckWrites(scheduler, plan);
  CheckMoves(scheduler, plan);
  CheckRunning(scheduler, *ledger);
  CheckChunks(scheduler, plan, *ledger);
  CheckTime(plan);
  CheckHead(scheduler, plan, *ledger);
  CheckPassing(scheduler, plan, ledger);
}

// A block is written by its only holder, before anybody else can find it.
void PlanRules::CheckWrites(const Scheduler& scheduler, const StepPlan& plan) {
  const BlockPool& pool = scheduler.pool();
  for (const PlannedSequence& planned : plan.sequences) {
    const int32_t end =
        planned.first_position + planned.num_tokens - (planned.last_row_cached ? 1 : 0);
    for (const auto& table : planned.block_tables) {
      for (int32_t p = planned.first_position; p < end; ++p) {
        const BlockId block = table[p / config_.block_size];
        if (pool.num_holders(block) == 1 && !pool.is_cached(block)) continue;
        verdict_.Fail(absl::StrCat("sequence ", planned.id, " writes block ", block,
                                   " that is shared or published"));
      }
    }
  }
}

// If anything waits and nothing runs, something is admitted or fails in this very step.
void PlanRules::CheckMoves(const Scheduler& scheduler, const StepPlan& plan) {
  const bool may_wait = in_flight_ || scheduler.pool().num_touched() < config_.num_blocks;
  if (num_waiting_ > 0 && ran_.empty() && !may_wait && plan.num_tokens == 0 && plan.ended.empty()) {
    verdict_.Fail(absl::StrCat("nothing moves: ", scheduler.Dump()));
  }
}

void PlanRules::CheckRunning(const Scheduler& scheduler, const Ledger& ledger) {
  num_stalled_ = 0;
  reserves_ = decodes_ = false;
  const auto num_groups = static_cast<int32_t>(config_.group_windows.size());
  for (const auto& [id, live] : ledger.live()) {
    const Sequence* const sequence = scheduler.Look(id);
    decodes_ |= decoded_.contains(id);
    if (sequence == nullptr || !sequence->is_running) continue;
    reserves_ |= sequence->full_reservation;
    if (planned_.contains(id) || sequence->num_remaining() == 0) continue;
    ++num_stalled_;
    if (sequence->table.num_blocks() * config_.block_size > sequence->num_computed_tokens) {
      verdict_.Fail(absl::StrCat("sequence ", id, " has a slot for its next row and got no row"));
    }
  }
  const BlockPool& pool = scheduler.pool();
  const int32_t usable = pool.num_free() + pool.num_idle();
  if (num_stalled_ > 0 && !reserves_ && !has_preempted_ && usable >= num_stalled_ * num_groups) {
    verdict_.Fail(absl::StrCat(num_stalled_, " got no row, and ", usable,
                               " blocks are there: ", scheduler.Dump()));
  }
}

// Whoever could have had more rows of its prompt had no more memory or no more budget.
void PlanRules::CheckChunks(const Scheduler& scheduler, const StepPlan& plan,
                            const Ledger& ledger) {
  const bool limits_time = config_.us_per_row > 0 || config_.us_per_attended > 0;
  const int32_t room = config_.max_num_batched_tokens - plan.num_tokens - num_stalled_;
  const BlockPool& pool = scheduler.pool();
  const auto num_groups = static_cast<int32_t>(config_.group_windows.size());
  const bool has_memory = pool.num_free() + pool.num_idle() >= (num_stalled_ + 1) * num_groups;
  if (limits_time || room <= 0 || reserves_ || has_preempted_ || !has_memory) return;
  for (const PlannedSequence& planned : plan.sequences) {
    const LiveSequence& live = ledger.live().at(planned.id);
    const int32_t end = planned.first_position + planned.num_tokens;
    if (end < live.num_prompt() + live.num_told && !live.WantsPromptRows()) {
      verdict_.Fail(absl::StrCat("sequence ", planned.id, " could have had more rows than ",
                                 planned.num_tokens));
    }
  }
}

// A step is longer than its target only by the one row of each that runs, and one block of rows.
void PlanRules::CheckTime(const StepPlan& plan) {
  double us = config_.us_per_step;
  int32_t num_extra = 0;
  for (const PlannedSequence& planned : plan.sequences) {
    const double n = planned.num_tokens;
    const double attended = n * planned.first_position + n * (n + 1) / 2;
    us += n * config_.us_per_row + attended * config_.us_per_attended;
    num_extra += planned.num_tokens - (ran_.contains(planned.id) ? 1 : 0);
  }
  const double target = decodes_ ? static_cast<double>(config_.target_itl_us) : 2e6;
  if (us > target + 1 && num_extra > config_.block_size) {
    verdict_.Fail(
        absl::StrCat("a step of ", us, " us with ", num_extra, " rows that could have come later"));
  }
}

int32_t PlanRules::DemandOf(const Sequence& sequence) const {
  const int32_t positions =
      sequence.full_reservation ? sequence.max_positions() : sequence.num_tokens();
  const auto num_groups = static_cast<int32_t>(config_.group_windows.size());
  return num_groups * ((positions + config_.block_size - 1) / config_.block_size + 1);
}

// The head of the queue is admitted as soon as what runs leaves room for it, however generously
// that is reckoned.
void PlanRules::CheckHead(const Scheduler& scheduler, const StepPlan& plan, const Ledger& ledger) {
  const SchedulerStats stats = scheduler.Stats();
  const Sequence* head = nullptr;
  int32_t claimed = config_.num_blocks / 2;  // the watermark at its highest
  for (const auto& [id, live] : ledger.live()) {
    const Sequence* const sequence = scheduler.Look(id);
    if (sequence == nullptr) continue;
    if (sequence->is_running) {
      claimed += DemandOf(*sequence);
    } else if (head == nullptr || live.request->priority > head->request->priority ||
               (live.request->priority == head->request->priority &&
                sequence->IsOlderThan(*head))) {
      head = sequence;
    }
  }
  if (head == nullptr || head->num_steps_in_flight > 0 || !head->waiting_on.is_none()) return;
  const bool has_budget =
      plan.num_tokens + num_stalled_ < config_.max_num_batched_tokens &&
      static_cast<int32_t>(plan.sequences.size()) + num_stalled_ < config_.max_num_seqs &&
      config_.us_per_row == 0 && config_.us_per_attended == 0;
  const BlockPool& pool = scheduler.pool();
  const bool has_blocks = claimed + DemandOf(*head) <= config_.num_blocks &&
                          pool.num_free() + pool.num_idle() >= DemandOf(*head);
  // Rows with logits may be used up by the prompts of others.
  const bool has_logit_rows = config_.max_logit_rows >= config_.max_num_batched_tokens;
  if (has_budget && has_blocks && has_logit_rows && num_stalled_ == 0 &&
      stats.num_running < config_.max_num_seqs && !has_preempted_) {
    verdict_.Fail(
        absl::StrCat("sequence ", head->id, " waits though there is room: ", scheduler.Dump()));
  }
}

// A request that found no blocks is passed a bounded number of times; waiting for a prefix is not
// being passed.
void PlanRules::CheckPassing(const Scheduler& scheduler, const StepPlan& plan, Ledger* ledger) {
  for (const PlannedSequence& planned : plan.sequences) {
    if (!never_planned_.contains(planned.id)) continue;
    const LiveSequence& passing = ledger->live().at(planned.id);
    for (const SequenceId id : never_planned_) {
      const auto found = ledger->live().find(id);
      if (id >= planned.id || found == ledger->live().end() || planned_.contains(id)) continue;
      LiveSequence& passed = found->second;
      const Sequence* const sequence = scheduler.Look(id);
      if (passed.request->priority < passing.request->priority || sequence == nullptr ||
          !sequence->waiting_on.is_none()) {
        continue;
      }
      ++coverage_.overtakes;
      if (++passed.times_passed > config_.max_overtakes) {
        verdict_.Fail(absl::StrCat("sequence ", id, " is passed ", passed.times_passed, " times"));
      }
    }
  }
}

}  // namespace quire
