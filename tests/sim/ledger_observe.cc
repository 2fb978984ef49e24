// What the ledger sees of the scheduler between its calls.
#include "absl/strings/str_cat.h"

#include "tests/sim/ledger.h"

namespace quire {

void Ledger::Observe(const Scheduler& scheduler, TimeUs now) {
  for (auto& [id, sequence] : live_) {
    if (sequence.is_added) ObserveOne(id, &sequence, scheduler.Look(id), now);
  }
  CheckStats(scheduler);
}

void Ledger::ObserveOne(SequenceId id, LiveSequence* sequence, const Sequence* seen, TimeUs now) {
  const Request& request = *sequence->request;
  const bool is_overdue = now >= request.deadline || now >= request.time_limit ||
                          (now >= request.queue_deadline && sequence->first_scheduled_at == kNever);
  if (sequence->must_end != 0 || is_overdue) {
    verdict_.Fail(absl::StrCat("sequence ", id, " outlives its end"));
  }
  if (seen == nullptr && (sequence->choice == 0 || sequence->state != SimState::kUnborn)) {
    verdict_.Fail(absl::StrCat("sequence ", id, " is forgotten"));
    return;
  }
  const SimState state = StateOf(seen);
  const int32_t slot = seen == nullptr ? -1 : seen->seq_slot;
  if (sequence->seq_slot >= 0 && slot < 0) {
    coverage_.Count(sequence->state, SimEvent::kPreempt);
    ++coverage_.preemptions;
    ++sequence->num_preemptions;
    ++expected_.num_preemptions;
  } else if (sequence->seq_slot >= 0 && slot != sequence->seq_slot) {
    verdict_.Fail(absl::StrCat("sequence ", id, " moved to another seq_slot"));
  }
  const bool reserves = config_.admission == AdmissionMode::kReserve;
  if (sequence->num_preemptions > (reserves ? 0 : config_.max_preemptions)) {
    verdict_.Fail(absl::StrCat("sequence ", id, " is preempted too often"));
  }
  sequence->seq_slot = slot;
  sequence->state = state;
}

void Ledger::CheckStats(const Scheduler& scheduler) {
  SchedulerStats expected = expected_;
  for (const auto& [id, sequence] : live_) {
    const Sequence* const seen = scheduler.Look(id);
    if (seen == nullptr) continue;
    expected.num_running += seen->is_running;
    expected.num_waiting += !seen->is_running;
    if (!seen->is_running) {
      expected.queued_prefill_tokens += sequence.num_prompt() + sequence.num_told;
    }
  }
  const BlockPool& pool = scheduler.pool();
  int32_t held = 0;
  int32_t cached = 0;
  for (BlockId block = 0; block < pool.num_blocks(); ++block) {
    held += pool.num_holders(block) > 0;
    cached += pool.num_holders(block) == 0 && pool.is_cached(block);
  }
  const SchedulerStats stats = scheduler.Stats();
  const bool is_right =
      stats.num_running == expected.num_running && stats.num_waiting == expected.num_waiting &&
      stats.queued_prefill_tokens == expected.queued_prefill_tokens &&
      stats.blocks_total == config_.num_blocks && stats.blocks_held == held &&
      stats.blocks_cached == cached && stats.num_preemptions == expected.num_preemptions &&
      stats.prefix_query_tokens == expected.prefix_query_tokens &&
      stats.prefix_hit_tokens == expected.prefix_hit_tokens &&
      stats.num_steps == expected.num_steps && stats.num_kv_rows == expected.num_kv_rows &&
      stats.max_seqs_in_step == expected.max_seqs_in_step &&
      stats.num_checks == expected.num_checks && stats.blocks_leaked == 0;
  if (!is_right) verdict_.Fail(absl::StrCat("statistics are wrong: ", scheduler.Dump()));
  if (stats.num_running == 0 && stats.blocks_held != 0) verdict_.Fail("held, and nobody runs");
}

}  // namespace quire
