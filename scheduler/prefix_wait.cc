// Who computes a shared prefix, who waits for it, and what the prefix cache is told.
#include <algorithm>

#include "absl/container/inlined_vector.h"

#include "kernels/check.h"
#include "scheduler/scheduler.h"

namespace quire {

PrefixMatch Scheduler::FindPrefix(const Sequence& sequence) const {
  if (!config_.prefix_caching) {
    PrefixMatch none;
    none.first_block.assign(num_groups_, 0);
    return none;
  }
  PrefixMatch match =
      cache_.Match(sequence.request->cache_salt, sequence.tokens, sequence.num_reusable_tokens());
  // Rows that the listener wants are computed in any case: there is nothing to wait for.
  if (sequence.WantsPromptRow(sequence.num_prompt_rows_told)) match.next_pending = {};
  return match;
}

bool Scheduler::IsWaitingForPrefix(const Sequence& sequence) const {
  return cache_.IsPending(sequence.waiting_on);
}

// `pending`: the next node that the waiter needs; none: it does not wait. O(tokens).
void Scheduler::WaitFor(Sequence* waiter, NodeRef pending) {
  waiter->waiting_on = pending;
  waiter->waiting_until = {};
  if (pending.is_none()) return;
  const Sequence& owner = *Find(cache_.OwnerOf(pending));
  const absl::Span<const int32_t> wanted =
      absl::MakeConstSpan(waiter->tokens).first(waiter->num_reusable_tokens());
  const auto differ =
      std::mismatch(wanted.begin(), wanted.end(), owner.tokens.begin(), owner.tokens.end()).first;
  const size_t num_shared = (differ - wanted.begin()) / config_.block_size;
  waiter->waiting_until = owner.nodes[std::min(num_shared, owner.nodes.size()) - 1];
}

// What FindPrefix would say is PENDING next, without looking at all that is there: an owner keeps
// its promises in order. REQUIRES: `waiting_until` is PENDING.
NodeRef Scheduler::NextPromised(const Sequence& waiter) const {
  const Sequence& owner = *Find(cache_.OwnerOf(waiter.waiting_until));
  const auto kept = absl::MakeConstSpan(owner.nodes).first(owner.num_published);
  return cache_.CanGoOnAfter(kept) ? owner.nodes[owner.num_published] : NodeRef{};
}

// Promises the full blocks of the prompt that follow what the sequence holds.
void Scheduler::PromiseBlocks(Sequence* sequence) {
  sequence->publishes = config_.prefix_caching;
  if (!sequence->publishes || sequence->WantsPromptRow(sequence->num_prompt_rows_told)) return;
  const int32_t block_size = config_.block_size;
  const absl::Span<const int32_t> tokens = sequence->tokens;
  std::vector<NodeRef>& nodes = sequence->nodes;
  const int32_t num_full = sequence->num_prompt_tokens / block_size;
  for (auto i = static_cast<int32_t>(nodes.size()); i < num_full; ++i) {
    const absl::Span<const int32_t> block = tokens.subspan(i * block_size, block_size);
    const NodeRef parent =
        nodes.empty() ? cache_.Root(sequence->request->cache_salt) : nodes.back();
    if (cache_.HasChild(parent, block)) return;
    nodes.push_back(cache_.AddPending(parent, block, sequence->id));
  }
}

// Tells the cache of the blocks that committed steps have filled.
void Scheduler::PublishBlocks(Sequence* sequence) {
  const int32_t block_size = config_.block_size;
  const absl::Span<const int32_t> tokens = sequence->tokens;
  std::vector<NodeRef>& nodes = sequence->nodes;
  while (sequence->publishes &&
         (sequence->num_published + 1) * block_size <= sequence->num_committed_tokens) {
    const int32_t i = sequence->num_published;
    absl::InlinedVector<BlockId, 2> blocks(num_groups_);
    for (int32_t group = 0; group < num_groups_; ++group) {
      blocks[group] = sequence->table.at(group, i);
    }
    if (i < static_cast<int32_t>(nodes.size())) {
      cache_.Fulfil(nodes[i], blocks);
    } else {
      const NodeRef parent =
          nodes.empty() ? cache_.Root(sequence->request->cache_salt) : nodes.back();
      const NodeRef node =
          cache_.Publish(parent, tokens.subspan(i * block_size, block_size), blocks);
      sequence->publishes = !node.is_none();
      if (!sequence->publishes) return;
      nodes.push_back(node);
    }
    ++sequence->num_published;
  }
}

// Takes back the promises of a sequence that stops running: waiters match again.
void Scheduler::LeavePrefix(Sequence* sequence) {
  std::vector<NodeRef>& nodes = sequence->nodes;
  while (static_cast<int32_t>(nodes.size()) > sequence->num_published) {
    cache_.ErasePending(nodes.back());
    nodes.pop_back();
  }
  if (!nodes.empty()) cache_.Prune(nodes.back());
  nodes.clear();
  sequence->num_published = 0;
}

// A sequence that others wait for runs at the highest priority among them.
void Scheduler::OrderRunning() {
  for (Sequence* sequence : running_) {
    sequence->effective_priority = sequence->priority;
  }
  for (Sequence* waiter : waiting_) {
    if (waiter->waiting_on.is_none()) continue;
    // The block it waited for may be there, and the one after it still promised.
    if (cache_.IsPending(waiter->waiting_until)) {
      if (!IsWaitingForPrefix(*waiter)) waiter->waiting_on = NextPromised(*waiter);
    } else {
      WaitFor(waiter, FindPrefix(*waiter).next_pending);
    }
    if (waiter->waiting_on.is_none()) continue;
    Sequence* const owner = Find(cache_.OwnerOf(waiter->waiting_on));
    owner->effective_priority = std::max(owner->effective_priority, waiter->priority);
  }
  const auto comes_first = [](const Sequence* a, const Sequence* b) {
    if (a->effective_priority != b->effective_priority) {
      return a->effective_priority > b->effective_priority;
    }
    return a->IsOlderThan(*b);
  };
  // In order already, unless somebody was admitted or owes something to somebody else.
  if (std::is_sorted(running_.begin(), running_.end(), comes_first)) return;
  std::sort(running_.begin(), running_.end(), comes_first);
}

}  // namespace quire
