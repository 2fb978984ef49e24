// Who may enter the queue, and who leaves it for the running list.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/check.h"
#include "paged_kv/capacity.h"
#include "scheduler/scheduler.h"

namespace quire {
namespace {

// How many requests that found no blocks a plan looks past, so that a plan stays cheap.
constexpr size_t kMaxBlockedLookedPast = 8;

}  // namespace

absl::Status Scheduler::CheckCanEverFit(const Request& request) const {
  if (request.num_choices > config_.max_choices) {
    return absl::InvalidArgumentError(absl::StrCat("INVALID_FIELD: n is ", request.num_choices,
                                                   "; at most ", config_.max_choices,
                                                   " choices are allowed"));
  }
  const auto prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  const int64_t positions = prompt + std::max(0, request.max_tokens - 1);
  if (prompt + request.max_tokens > config_.max_model_len) {
    return absl::InvalidArgumentError(absl::StrCat(
        "CONTEXT_LENGTH_EXCEEDED: ", prompt, " prompt tokens and max_tokens ", request.max_tokens,
        " make ", prompt + request.max_tokens, ", the limit is ", config_.max_model_len));
  }
  const int64_t blocks = BlocksAtMost(config_.group_windows, config_.block_size, positions,
                                      config_.max_num_batched_tokens);
  if (blocks > config_.num_blocks) {
    const int64_t longest =
        LongestSequence(config_.group_windows, config_.block_size, config_.num_blocks,
                        config_.max_num_batched_tokens, config_.max_model_len);
    return absl::InvalidArgumentError(absl::StrCat(
        "REQUEST_EXCEEDS_KV_CAPACITY: ", prompt, " prompt tokens and max_tokens ",
        request.max_tokens, " need ", blocks, " KV blocks of ", config_.block_size,
        " tokens, the pool has ", config_.num_blocks, ", enough for ", longest, " tokens"));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::CheckQueueHasRoom(int64_t num_tokens) const {
  if (static_cast<int32_t>(waiting_.size()) >= config_.max_queued_requests) {
    return absl::ResourceExhaustedError(absl::StrCat("QUEUE_FULL: ", waiting_.size(),
                                                     " requests are waiting, the limit is ",
                                                     config_.max_queued_requests));
  }
  // An empty queue takes any request that fits at all.
  const int64_t limit = config_.max_queued_prefill_tokens;
  if (limit > 0 && !waiting_.empty() && queued_tokens_ + num_tokens > limit) {
    return absl::ResourceExhaustedError(absl::StrCat("QUEUE_FULL: ", queued_tokens_,
                                                     " prefill tokens are waiting, ", num_tokens,
                                                     " more would exceed the limit of ", limit));
  }
  return absl::OkStatus();
}

void Scheduler::AdmitWaiting(Draft* draft) {
  // Memory is short: what is free belongs to those who run.
  if (draft->has_preempted || draft->promised_blocks > 0) return;
  std::vector<Sequence*> blocked;
  for (auto next = waiting_.begin(); next != waiting_.end() && !free_seq_slots_.empty();) {
    Sequence* const sequence = *next++;
    if (sequence->num_steps_in_flight > 0 || IsWaitingForPrefix(*sequence)) continue;
    switch (TryAdmit(sequence, draft)) {
      case Admission::kAdmitted:
        for (Sequence* passed : blocked) ++passed->times_passed;
        draft->all_claims.reset();
        break;
      case Admission::kWaitsForPrefix:
        break;
      case Admission::kNoBlocks:
        blocked.push_back(sequence);
        break;
      case Admission::kNoBudget:
        return;
    }
    const bool may_pass =
        blocked.size() < kMaxBlockedLookedPast &&
        std::none_of(blocked.begin(), blocked.end(), [this](const Sequence* passed) {
          return passed->times_passed >= config_.max_overtakes;
        });
    if (!may_pass) return;
  }
}

Scheduler::Admission Scheduler::TryAdmit(Sequence* sequence, Draft* draft) {
  if (const Sequence* const source = ForkSource(*sequence)) {
    return TryFork(sequence, *source, draft);
  }
  PrefixMatch match = FindPrefix(*sequence);
  if (!match.next_pending.is_none()) {
    WaitFor(sequence, match.next_pending);
    return Admission::kWaitsForPrefix;
  }
  if (!draft->budget.HasLogitRow()) return Admission::kNoBudget;
  const auto num_tokens = static_cast<int32_t>(sequence->tokens.size());
  const Head head = HeadOf(match);
  // With the copy of a part of a block, or else without it.
  for (const int32_t copied : {match.partial_tokens, 0}) {
    match.partial_tokens = copied;
    // A full hit: the last token's row is computed for its logits.
    const int32_t first = std::min(match.num_tokens + copied, num_tokens - 1);
    const bool wants_rows = sequence->WantsPromptRow(first);
    const int32_t chunk = draft->budget.LargestChunk(
        first, CapChunk(*sequence, first, num_tokens - first), wants_rows);
    if (chunk == 0) return Admission::kNoBudget;
    // Copying holds its source for a moment, which takes it out of the unheld ones.
    const int32_t num_copied = copied > 0 ? num_groups_ : 0;
    if (!HasBlocksToAdmit(*sequence, head, num_copied, first + chunk, draft)) continue;
    Admit(sequence, match, first, draft);
    draft->budget.Spend(first, chunk, wants_rows ? chunk : 1);
    TakeBlocks(sequence, first + chunk);
    PlanChunk(sequence, chunk, draft);
    return Admission::kAdmitted;
  }
  return Admission::kNoBlocks;
}

Scheduler::Head Scheduler::HeadOf(const PrefixMatch& match) const {
  Head head(num_groups_);
  const auto num_matched = static_cast<int32_t>(match.nodes.size());
  for (int32_t i = 0; i < num_matched; ++i) {
    const absl::Span<const BlockId> blocks = cache_.BlocksOf(match.nodes[i]);
    for (int32_t group = 0; group < num_groups_; ++group) {
      head[group].push_back(i < match.first_block[group] ? kNoBlock : blocks[group]);
    }
  }
  return head;
}

// Blocks to set aside for a sequence beside the head that it would hold, for itself and for those
// who would have to share window blocks with it (see ClaimOf).
int32_t Scheduler::NeedBeside(const Sequence& sequence, const Head& head) const {
  int32_t need = 0;
  for (int32_t group = 0; group < num_groups_; ++group) {
    int32_t num_had = 0;
    for (const BlockId block : head[group]) {
      if (block == kNoBlock) continue;
      const int32_t holders = pool_.num_holders(block);
      const bool is_window = config_.group_windows[group] > 0;
      if (!is_window || holders == 0) ++num_had;
      if (is_window && holders == 1) ++need;
    }
    need += std::max(0, Demand(sequence, group) - num_had);
  }
  return need;
}

// `num_copied`: unheld blocks that are copied from on the way. `end`: of the positions to compute.
bool Scheduler::HasBlocksToAdmit(const Sequence& sequence, const Head& head, int32_t num_copied,
                                 int32_t end, Draft* draft) const {
  // Blocks that it would take out of the unheld ones without needing memory.
  int32_t num_revived = num_copied;
  for (const std::vector<BlockId>& blocks : head) {
    for (const BlockId block : blocks) {
      num_revived += block != kNoBlock && pool_.num_holders(block) == 0;
    }
  }
  const auto num_had = static_cast<int32_t>(head[0].size());
  const int32_t blocks_to_end = (end + config_.block_size - 1) / config_.block_size;
  const int32_t needed_now = num_groups_ * std::max(0, blocks_to_end - num_had);
  const int32_t usable_now =
      pool_.num_free() + pool_.num_idle() - draft->promised_blocks - num_revived;
  if (needed_now > usable_now) return false;

  if (!draft->all_claims.has_value()) draft->all_claims = AllClaims();
  int32_t unclaimed = pool_.num_blocks() - pool_.num_held() - num_revived - *draft->all_claims;
  if (!running_.empty()) unclaimed -= watermark_.blocks();
  return NeedBeside(sequence, head) <= unclaimed;
}

void Scheduler::EnterRunning(Sequence* sequence) {
  LeaveQueue(sequence);
  sequence->TakeMemory(config_.block_size);
  sequence->is_running = true;
  sequence->effective_priority = sequence->priority;
  sequence->seq_slot = free_seq_slots_.back();
  free_seq_slots_.pop_back();
  running_.push_back(sequence);
}

void Scheduler::Admit(Sequence* sequence, const PrefixMatch& match, int32_t first_position,
                      Draft* draft) {
  EnterRunning(sequence);
  cache_.Hold(match, &sequence->table);
  sequence->nodes = match.nodes;
  sequence->num_published = static_cast<int32_t>(match.nodes.size());
  sequence->num_committed_tokens = match.num_tokens;
  sequence->last_token_cached = match.num_tokens > first_position;
  if (match.partial_tokens > 0) {
    const absl::Span<const BlockId> sources = cache_.BlocksOf(match.partial);
    CopyLastBlock(sequence, {sources.begin(), sources.end()},
                  match.num_tokens + match.partial_tokens, draft);
  }
  sequence->num_computed_tokens = first_position;
  PromiseBlocks(sequence);

  if (sequence->first_scheduled_at != kNever) return;  // counted when it was admitted first
  sequence->cached_tokens = match.num_tokens + match.partial_tokens;
  counters_.prefix_query_tokens += sequence->num_prompt_tokens;
  counters_.prefix_hit_tokens += sequence->cached_tokens;
}

// Takes a block for the positions up to `end`, filled from `sources` [num_groups]. They are held
// while it is taken, and named by this step.
void Scheduler::CopyLastBlock(Sequence* sequence, const std::vector<BlockId>& sources, int32_t end,
                              Draft* draft) {
  for (const BlockId source : sources) pool_.Hold(source);
  TakeBlocks(sequence, end);
  for (int32_t group = 0; group < num_groups_; ++group) {
    const BlockId target = sequence->table.at(group, sequence->table.num_blocks() - 1);
    draft->plan.copies.push_back({sources[group], target});
    pool_.Drop(sources[group], draft->plan.step_id);
  }
}

}  // namespace quire
