#include "tests/sim/plan_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quire {

void PlanRules::Before(const Scheduler& scheduler, const Ledger& ledger) {
  ran_.clear();
  decoded_.clear();
  waited_.clear();
  for (const auto& [id, live] : ledger.live()) {
    const Sequence* const sequence = scheduler.Look(id);
    if (sequence == nullptr) continue;
    if (sequence->is_running) ran_.insert(id);
    const int32_t drawn = live.num_told + sequence->num_draws_in_flight;
    const int32_t last = live.num_prompt() + drawn - 1;
    if (sequence->is_running && drawn > 0 && drawn < live.request->max_tokens &&
        sequence->num_computed_tokens == last) {
      decoded_.insert(id);
    }
    if (!sequence->is_running) waited_.insert({id, sequence->waiting_on});
  }
  num_preemptions_ = scheduler.Stats().num_preemptions;
}

void PlanRules::After(const Scheduler& scheduler, const StepPlan& plan, Ledger* ledger) {
  planned_.clear();
  for (const PlannedSequence& planned : plan.sequences) planned_.insert(planned.id);
  has_preempted_ = scheduler.Stats().num_preemptions != num_preemptions_;
  CheckWrites(scheduler, plan);
  CheckRunning(scheduler, *ledger);
  CheckChunks(scheduler, plan, *ledger);
  CheckTime(plan);
  CheckHead(scheduler, plan, *ledger);
  CheckPassing(scheduler, ledger);
  CheckVictims(scheduler, *ledger);
  CheckLentPriority(scheduler, *ledger);
}

// A block is written by its only holder, before anybody else can find it.
void PlanRules::CheckWrites(const Scheduler& scheduler, const StepPlan& plan) {
  const BlockPool& pool = scheduler.pool();
  for (const PlannedSequence& planned : plan.sequences) {
    const int32_t end = planned.first_position + planned.num_written();
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
    const BlockPool& pool = scheduler.pool();
    const bool is_coming = pool.num_fenced() > 0 || pool.num_touched() < config_.num_blocks;
    if (sequence->full_reservation && !is_coming) {
      verdict_.Fail(absl::StrCat("sequence ", id, " got no row, and its blocks are set aside"));
    }
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
    if (end < live.num_prompt() + live.num_told && !live.request->WantsPromptRows()) {
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
  const LiveSequence* head_live = nullptr;
  int32_t claimed = config_.num_blocks / 2;  // the watermark at its highest
  for (const auto& [id, live] : ledger.live()) {
    const Sequence* const sequence = scheduler.Look(id);
    if (sequence == nullptr) continue;
    if (sequence->is_running) {
      claimed += DemandOf(*sequence);
    } else if (head == nullptr || live.ComesBefore(*head_live)) {
      head_live = &live;
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

// One that found no blocks is passed a bounded number of times; waiting for a prefix is not being
// passed, nor is waiting for one's own steps in flight.
void PlanRules::CheckPassing(const Scheduler& scheduler, Ledger* ledger) {
  for (const SequenceId id : planned_) {
    if (ran_.contains(id)) continue;
    const LiveSequence& passing = ledger->live().at(id);
    for (const auto& [passed_id, node] : waited_) {
      const auto found = ledger->live().find(passed_id);
      if (found == ledger->live().end() || !found->second.ComesBefore(passing)) continue;
      const Sequence* const passed = scheduler.Look(passed_id);
      if (passed == nullptr || passed->is_running || passed->num_steps_in_flight > 0 ||
          !passed->waiting_on.is_none()) {
        continue;
      }
      ++coverage_.overtakes;
      if (++found->second.times_passed > config_.max_overtakes) {
        verdict_.Fail(absl::StrCat("sequence ", passed_id, " is passed ",
                                   found->second.times_passed, " times"));
      }
    }
  }
}

// Who loses its blocks is the last in order of those whose blocks are not set aside, and nobody new
// gets what was freed, nor what somebody waits for.
void PlanRules::CheckVictims(const Scheduler& scheduler, const Ledger& ledger) {
  for (const SequenceId victim_id : ran_) {
    const Sequence* const victim = scheduler.Look(victim_id);
    if (victim == nullptr || victim->is_running) continue;
    for (const SequenceId id : ran_) {
      const Sequence* const other = scheduler.Look(id);
      if (other == nullptr || !other->is_running || other->full_reservation) continue;
      const bool is_first =
          other->effective_priority != victim->effective_priority
              ? other->effective_priority > victim->effective_priority
              : std::pair(ledger.live().at(id).first_id, other->choice) <
                    std::pair(ledger.live().at(victim_id).first_id, victim->choice);
      if (is_first) continue;
      verdict_.Fail(absl::StrCat("sequence ", victim_id, " lost its blocks before ", id));
    }
  }
  for (const SequenceId id : planned_) {
    if (ran_.contains(id) || (num_stalled_ == 0 && !has_preempted_)) continue;
    verdict_.Fail(absl::StrCat("sequence ", id, " takes memory that others wait for"));
  }
}

// Who computes what others wait for runs at their priority.
void PlanRules::CheckLentPriority(const Scheduler& scheduler, const Ledger& ledger) {
  for (const auto& [id, node] : waited_) {
    const NodeRef awaited = node;  // lambdas capture no bindings
    const Sequence* const waiter = scheduler.Look(id);
    if (node.is_none() || waiter == nullptr || waiter->waiting_on != node) continue;
    for (const auto& [owner_id, live] : ledger.live()) {
      const Sequence* const owner = scheduler.Look(owner_id);
      if (owner == nullptr || !owner->is_running) continue;
      const bool owns = std::any_of(owner->nodes.begin() + owner->num_published, owner->nodes.end(),
                                    [awaited](NodeRef own) { return own == awaited; });
      if (owns && owner->effective_priority < waiter->request->priority) {
        verdict_.Fail(absl::StrCat("sequence ", owner_id, " does not run at the priority of ", id));
      }
    }
  }
}

// What somebody holds stays known to the prefix cache for as long as it is held.
void PlanRules::CheckCached(const BlockPool& pool) {
  blocks_.resize(pool.num_blocks());
  for (BlockId block = 0; block < pool.num_blocks(); ++block) {
    const SeenBlock now{.generation = pool.generation(block),
                        .is_held_and_cached = pool.num_holders(block) > 0 && pool.is_cached(block)};
    const SeenBlock before = std::exchange(blocks_[block], now);
    if (before.is_held_and_cached && before.generation == now.generation &&
        pool.num_holders(block) > 0 && !pool.is_cached(block)) {
      verdict_.Fail(absl::StrCat("block ", block, " was evicted though it is held"));
    }
  }
}

}  // namespace quire
