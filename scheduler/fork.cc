// Requests of several choices: the first one computes the prompt, then the others continue from its
// blocks. Full blocks are shared, the last one is copied before anybody writes to it again.
#include <algorithm>

#include "kernels/check.h"
#include "scheduler/scheduler.h"

namespace quire {

// A choice comes into being with its first token: it waits for its place like everybody else, but
// at the rank of its request.
Sequence* Scheduler::AddChoice(const Sequence& first, uint32_t choice) {
  Sequence* const sequence = NewSequence(first.id + choice, first.request);
  sequence->choice = choice;
  sequence->arrival = first.arrival;
  sequence->added_at = first.added_at;
  sequence->first_scheduled_at = first.first_scheduled_at;
  sequence->num_prompt_rows_told = first.num_prompt_tokens;
  EnterQueue(sequence);
  return sequence;
}

// The running choice whose blocks hold all that `sequence` needs of the prompt; null: there is
// none, it has to be admitted as any other.
const Sequence* Scheduler::ForkSource(const Sequence& sequence) const {
  if (sequence.choice == 0 || sequence.num_generated() != 1) return nullptr;
  const Sequence* const first = Find(sequence.id - sequence.choice);
  if (first == nullptr || !first->is_running) return nullptr;
  const int32_t position = sequence.num_prompt_tokens;
  if (first->num_committed_tokens < position) return nullptr;
  for (int32_t group = 0; group < num_groups_; ++group) {
    if (first->table.first_held(group) > FirstBlockSeen(group, position)) return nullptr;
  }
  return first;
}

Scheduler::Head Scheduler::HeadOf(const Sequence& source, int32_t position) const {
  Head head(num_groups_);
  for (int32_t group = 0; group < num_groups_; ++group) {
    for (int32_t i = 0; i < position / config_.block_size; ++i) {
      const bool is_seen = i >= FirstBlockSeen(group, position);
      head[group].push_back(is_seen ? source.table.at(group, i) : kNoBlock);
    }
  }
  return head;
}

Scheduler::Admission Scheduler::TryFork(Sequence* sequence, const Sequence& source, Draft* draft) {
  const int32_t position = sequence->num_prompt_tokens;
  if (!draft->budget.HasLogitRow() || draft->budget.LargestChunk(position, 1, false) == 0) {
    return Admission::kNoBudget;
  }
  const Head head = HeadOf(source, position);
  if (!HasBlocksToAdmit(*sequence, head, 0, position + 1, draft)) return Admission::kNoBlocks;

  EnterRunning(sequence);
  const int32_t num_shared = position / config_.block_size;
  std::vector<BlockId> held(num_groups_);
  for (int32_t i = 0; i < num_shared; ++i) {
    for (int32_t group = 0; group < num_groups_; ++group) {
      held[group] = head[group][i];
      if (held[group] != kNoBlock) pool_.Hold(held[group]);
    }
    sequence->table.Append(held);
  }
  sequence->publishes = config_.prefix_caching && source.num_published >= num_shared;
  if (sequence->publishes) {
    sequence->nodes.assign(source.nodes.begin(), source.nodes.begin() + num_shared);
    sequence->num_published = num_shared;
  }
  if (position % config_.block_size > 0) {
    std::vector<BlockId> partial(num_groups_);
    for (int32_t group = 0; group < num_groups_; ++group) {
      partial[group] = source.table.at(group, num_shared);
    }
    CopyLastBlock(sequence, partial, position, draft);
  }
  sequence->num_computed_tokens = position;
  sequence->num_committed_tokens = position;
  draft->budget.Spend(position, 1, 1);
  TakeBlocks(sequence, position + 1);
  PlanChunk(sequence, 1, draft);
  return Admission::kAdmitted;
}

}  // namespace quire
