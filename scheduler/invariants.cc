// What must hold after every call, whatever happened; and the state as text.
#include "absl/strings/str_cat.h"

#include "kernels/check.h"
#include "scheduler/scheduler.h"

namespace quire {

void Scheduler::CheckCounts() const {
  const int32_t num_untouched = pool_.num_blocks() - pool_.num_touched();
  QUIRE_CHECK(
      pool_.num_free() + pool_.num_held() + pool_.num_fenced() + pool_.num_idle() + num_untouched ==
          pool_.num_blocks(),
      "every block is in one place");
  QUIRE_CHECK(waiting_.size() + running_.size() == sequences_.size(), "in exactly one list");
  QUIRE_CHECK(running_.size() + free_seq_slots_.size() == static_cast<size_t>(config_.max_num_seqs),
              "slots are taken or free");
  QUIRE_CHECK(num_in_flight() <= config_.max_steps_in_flight, "steps in flight are bounded");
}

// What is wrong now would give wrong tokens later: better to end.
void Scheduler::EndCall() {
  CheckCounts();
  ++counters_.num_checks;
}

int32_t Scheduler::NumLeakedBlocks() const {
  const int32_t held_by_nobody = running_.empty() ? pool_.num_held() : 0;
  const int32_t fenced_by_nothing = num_in_flight() == 0 ? pool_.num_fenced() : 0;
  return held_by_nobody + fenced_by_nothing;
}

std::string Scheduler::Dump() const {
  std::string text =
      absl::StrCat("blocks: ", pool_.num_blocks(), " = ", pool_.num_free(), " free + ",
                   pool_.num_held(), " held + ", pool_.num_fenced(), " fenced + ", pool_.num_idle(),
                   " idle + ", pool_.num_blocks() - pool_.num_touched(), " untouched; in flight:");
  for (StepId step = oldest_step_; step < next_step_id_; ++step) absl::StrAppend(&text, " ", step);
  for (const Sequence* sequence : running_) {
    absl::StrAppend(&text, "; running ", sequence->id, " slot ", sequence->seq_slot, " tokens ",
                    sequence->num_tokens(), " computed ", sequence->num_computed_tokens, " blocks ",
                    sequence->table.num_blocks());
  }
  for (const Sequence* sequence : waiting_) {
    absl::StrAppend(&text, "; waiting ", sequence->id, " tokens ", sequence->num_tokens(),
                    " preempted ", sequence->num_preemptions, " passed ", sequence->times_passed);
  }
  return text;
}

void Scheduler::CheckInvariants() const {
  CheckCounts();
  pool_.CheckInvariants();
  cache_.CheckInvariants();
  std::vector<int32_t> num_holders(pool_.num_blocks());
  std::vector<bool> slot_taken(config_.max_num_seqs);
  int64_t queued_tokens = 0;
  for (const auto& [id, sequence] : sequences_) {
    QUIRE_CHECK(next_due_ <= sequence->due_at(), "deadlines are looked at in time");
    QUIRE_CHECK(sequence->last_token == sequence->tokens.back(), "the last token is the last");
  }
  for (const Sequence* sequence : waiting_) {
    queued_tokens += static_cast<int64_t>(sequence->tokens.size());
    QUIRE_CHECK(!sequence->is_running && sequence->seq_slot < 0, "WAITING holds no slot");
    QUIRE_CHECK(sequence->table.num_blocks() == 0, "WAITING holds no block");
    QUIRE_CHECK(sequence->nodes.empty(), "WAITING owns no node");
    if (cache_.IsPending(sequence->waiting_until)) {
      const NodeRef next = FindPrefix(*sequence).next_pending;
      QUIRE_CHECK(next == NextPromised(*sequence), "promises are kept in order");
    }
  }
  QUIRE_CHECK(queued_tokens == queued_tokens_, "queued tokens are counted");
  for (const Sequence* sequence : running_) {
    QUIRE_CHECK(sequence->is_running && !slot_taken[sequence->seq_slot], "slots are not shared");
    slot_taken[sequence->seq_slot] = true;
    QUIRE_CHECK(sequence->num_computed_tokens <= sequence->num_tokens(), "computed tokens exist");
    QUIRE_CHECK(sequence->num_committed_tokens <= sequence->num_computed_tokens + 1,
                "committed after computed");
    QUIRE_CHECK(sequence->table.num_blocks() * config_.block_size >= sequence->num_computed_tokens,
                "computed tokens have slots");
    for (const std::vector<BlockId>& ids : sequence->table.ids()) {
      for (const BlockId block : ids) {
        if (block != kNoBlock) ++num_holders[block];
      }
    }
    for (size_t i = 0; i < sequence->nodes.size(); ++i) {
      const bool is_promised = static_cast<int32_t>(i) >= sequence->num_published;
      QUIRE_CHECK(cache_.IsPending(sequence->nodes[i]) == is_promised, "promises are kept or open");
      if (is_promised) {
        QUIRE_CHECK(cache_.OwnerOf(sequence->nodes[i]) == sequence->id, "own promises");
      }
    }
  }
  for (BlockId block = 0; block < pool_.num_blocks(); ++block) {
    QUIRE_CHECK(num_holders[block] == pool_.num_holders(block), "only running sequences hold");
  }
}

}  // namespace quire
