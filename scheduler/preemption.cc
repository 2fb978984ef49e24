// Memory among running sequences: who takes blocks, who waits for some, who gives up its own.
#include <algorithm>

#include "kernels/check.h"
#include "paged_kv/capacity.h"
#include "scheduler/scheduler.h"

namespace quire {

// Blocks of one group that a sequence needs at once, at most: for its tokens so far, or, with a
// full reservation, for all that it may ever have.
int32_t Scheduler::Demand(const Sequence& sequence, int32_t group) const {
  const int32_t positions = sequence.full_reservation
                                ? sequence.max_positions()
                                : std::min(sequence.num_tokens(), sequence.max_positions());
  return static_cast<int32_t>(GroupBlocksAtMost(config_.group_windows[group], config_.block_size,
                                                positions, config_.max_num_batched_tokens));
}

// Blocks that a running sequence will still need for what it was admitted with. A window group's
// block that others hold too does not count as had: giving it back makes no room for the next.
int32_t Scheduler::ClaimOf(const Sequence& sequence) const {
  const BlockTable& table = sequence.table;
  int32_t claim = 0;
  for (int32_t group = 0; group < num_groups_; ++group) {
    int32_t num_had = table.num_blocks() - table.first_held(group);
    if (config_.group_windows[group] > 0) {
      for (int32_t i = table.first_held(group); i < table.num_blocks(); ++i) {
        if (pool_.num_holders(table.at(group, i)) > 1) --num_had;
      }
    }
    claim += std::max(0, Demand(sequence, group) - num_had);
  }
  return claim;
}

int32_t Scheduler::AllClaims() const {
  int32_t claims = 0;
  for (const Sequence* sequence : running_) claims += ClaimOf(*sequence);
  return claims;
}

// Claims that nobody else may take blocks from.
int32_t Scheduler::ReservedClaimOf(const Sequence& sequence) const {
  return sequence.full_reservation ? ClaimOf(sequence) : 0;
}

int32_t Scheduler::ReservedClaims() const {
  int32_t claims = 0;
  for (const Sequence* sequence : running_) claims += ReservedClaimOf(*sequence);
  return claims;
}

// Blocks that the sequence may take now: what is free or evictable, less what is promised.
int32_t Scheduler::UsableBlocks(const Sequence& sequence, const Draft& draft) const {
  const int32_t reserved_by_others = draft.reserved_claims - ReservedClaimOf(sequence);
  return pool_.num_free() + pool_.num_idle() - draft.promised_blocks - reserved_by_others;
}

int32_t Scheduler::NewBlocks(const Sequence& sequence, int32_t end) const {
  const int32_t blocks_to_end = (end + config_.block_size - 1) / config_.block_size;
  return num_groups_ * std::max(0, blocks_to_end - sequence.table.num_blocks());
}

void Scheduler::TakeBlocks(Sequence* sequence, int32_t end) {
  const int32_t count = NewBlocks(*sequence, end);
  if (count == 0) return;
  taken_.clear();
  const bool was_taken = cache_.MakeFree(count) && pool_.Take(count, &taken_);
  QUIRE_CHECK(was_taken, "room was made");
  for (int32_t i = 0; i < count; i += num_groups_) {
    sequence->table.Append(absl::MakeConstSpan(taken_).subspan(i, num_groups_));
  }
}

// A chunk that stops where the blocks end, rather than one that drives out others.
int32_t Scheduler::FitToBlocks(const Sequence& sequence, int32_t num_tokens,
                               const Draft& draft) const {
  const int32_t begin = sequence.num_computed_tokens;
  const int32_t usable = UsableBlocks(sequence, draft);
  while (num_tokens > 1 && NewBlocks(sequence, begin + num_tokens) > usable) {
    const int32_t last_border = (begin + num_tokens - 1) / config_.block_size * config_.block_size;
    num_tokens = std::max(1, last_border - begin);
  }
  return num_tokens;
}

Scheduler::Room Scheduler::MakeRoom(Sequence* sequence, int32_t num_blocks, Draft* draft) {
  if (num_blocks == 0) return Room::kNow;
  for (;;) {
    const int32_t usable = UsableBlocks(*sequence, *draft);
    if (num_blocks <= usable) return Room::kNow;
    // Blocks on their way: steps in flight still name them, or their memory is being touched.
    const int32_t coming = pool_.num_fenced() + pool_.num_blocks() - pool_.num_touched();
    Sequence* const victim = num_blocks <= usable + coming ? nullptr : ChooseVictim(*sequence);
    if (victim == nullptr) {
      draft->promised_blocks += num_blocks;
      return Room::kLater;
    }
    Preempt(victim, draft);
    // It may have shared window blocks, which count as had once they are not shared.
    draft->reserved_claims = ReservedClaims();
    if (victim == sequence) return Room::kPreempted;
  }
}

// The last in order that may be preempted, the beneficiary itself at the latest: those before it
// are part of this plan. Null: nobody may be.
Sequence* Scheduler::ChooseVictim(const Sequence& beneficiary) const {
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    if (!(*it)->full_reservation) return *it;
    if (*it == &beneficiary) break;
  }
  return nullptr;
}

void Scheduler::Preempt(Sequence* sequence, Draft* draft) {
  if (sequence->num_remaining() > 0) draft->budget.GiveBack(sequence->num_computed_tokens);
  DropResources(sequence);
  sequence->num_computed_tokens = 0;
  sequence->num_committed_tokens = 0;
  ++sequence->num_preemptions;
  ++counters_.num_preemptions;
  draft->has_preempted = true;
  if (sequence->num_preemptions >= config_.max_preemptions) sequence->full_reservation = true;
  EnterQueue(sequence);
}

}  // namespace quire
