#ifndef QUIRE_SCHEDULER_SEQUENCE_H_
#define QUIRE_SCHEDULER_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"

#include "paged_kv/block_pool.h"
#include "paged_kv/block_table.h"
#include "paged_kv/prefix_cache.h"
#include "paged_kv/reserve_touched.h"
#include "scheduler/request.h"

namespace quire {

// Sequence is the life of one choice of a request in the scheduler: its tokens, how far they are
// computed, and what it holds. It decides nothing.
//
// WAITING: holds no block, slot or row. RUNNING: in the running list, with a seq_slot. Preemption
// leads back to WAITING. `num_computed_tokens` chases num_tokens().
//
// Owned by Scheduler.
struct Sequence {
  Sequence(SequenceId sequence_id, std::shared_ptr<const Request> its_request, int32_t num_groups)
      : id(sequence_id),
        request(std::move(its_request)),
        num_prompt_tokens(static_cast<int32_t>(request->prompt_token_ids.size())),
        max_tokens(request->max_tokens),
        priority(request->priority),
        wants_prompt_rows(request->WantsPromptRows()),
        stop_token_ids(request->stop_token_ids.begin(), request->stop_token_ids.end()),
        tokens(request->prompt_token_ids),
        last_token(tokens.back()),
        table(num_groups) {}

  int32_t num_generated() const { return static_cast<int32_t>(tokens.size()) - num_prompt_tokens; }
  // Tokens known, and those that steps in flight are drawing.
  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()) + num_draws_in_flight; }
  // Positions whose keys and values it ever needs: the last token drawn is not computed.
  int32_t max_positions() const {
    return num_prompt_tokens + (max_tokens > 0 ? max_tokens - 1 : 0);
  }
  // Rows left to plan with what is known now.
  int32_t num_remaining() const {
    const int32_t num_drawn = num_generated() + num_draws_in_flight;
    const bool is_all_drawn = max_tokens > 0 && num_drawn >= max_tokens;
    return is_all_drawn ? 0 : num_tokens() - num_computed_tokens;
  }
  // When it is to end whatever it has by then.
  TimeUs due_at() const {
    const TimeUs limit = std::min(request->deadline, request->time_limit);
    return first_scheduled_at == kNever ? std::min(limit, request->queue_deadline) : limit;
  }
  // In the order of Add, and within a request in that of its choices.
  bool IsOlderThan(const Sequence& other) const {
    return arrival != other.arrival ? arrival < other.arrival : choice < other.choice;
  }
  bool is_decoding() const { return num_tokens() > num_prompt_tokens && num_remaining() == 1; }
  // The logits of the prompt's row at `position` are still owed to the listener.
  bool WantsPromptRow(int32_t position) const {
    return wants_prompt_rows && position >= num_prompt_rows_told && position < num_prompt_tokens;
  }
  void AppendToken(int32_t token_id) {
    tokens.push_back(token_id);
    last_token = token_id;
  }
  // Tokens that the prefix cache may stand in for: all, but for prompt rows that are owed.
  int32_t num_reusable_tokens() const {
    return WantsPromptRow(num_prompt_rows_told) ? num_prompt_rows_told
                                                : static_cast<int32_t>(tokens.size());
  }

  // For all that it may grow to, so that no step has to.
  void TakeMemory(int32_t block_size) {
    const int32_t max_blocks = (max_positions() + block_size - 1) / block_size;
    ReserveTouched(num_prompt_tokens + max_tokens, &tokens);
    ReserveTouched(max_blocks, &nodes);
    table.Reserve(max_blocks);
  }

  const SequenceId id;
  const std::shared_ptr<const Request> request;
  // Of the request: every step needs them of every sequence, and would find them far apart there.
  const int32_t num_prompt_tokens;
  const int32_t max_tokens;
  const int32_t priority;
  const bool wants_prompt_rows;
  const absl::InlinedVector<int32_t, 4> stop_token_ids;
  int32_t num_unborn = 0;  // choices that come out of this one when the prompt is computed
  uint32_t choice = 0;     // among the request's; the others' ids are id - choice + theirs
  uint64_t arrival = 0;    // order of Add
  TimeUs added_at = 0;
  TimeUs first_scheduled_at = kNever;

  std::vector<int32_t> tokens;       // prompt, then generated; grows by AppendToken only
  int32_t last_token;                // of `tokens`, all that a decoding step needs of them
  int32_t num_computed_tokens = 0;   // positions planned or computed since admission
  int32_t num_committed_tokens = 0;  // positions whose KV is known to be good
  int32_t num_draws_in_flight = 0;
  int32_t num_steps_in_flight = 0;
  StepId last_step = 0;              // newest step that names it
  int32_t num_prompt_rows_told = 0;  // prompt rows [0, n) whose logits went to the listener
  int32_t cached_tokens = 0;         // at first admission
  int32_t num_preemptions = 0;
  int32_t times_passed = 0;       // by requests behind it, since it last waited
  bool full_reservation = false;  // all blocks that it can ever need are set aside for it

  // RUNNING only.
  bool is_running = false;
  int32_t seq_slot = -1;
  int32_t effective_priority = 0;  // max(own, its waiters')
  bool last_token_cached = false;  // full hit: the last row is computed, its KV is there
  BlockTable table;
  // Nodes of its first blocks: [0, num_published) VALID, the rest PENDING and its own.
  std::vector<NodeRef> nodes;
  int32_t num_published = 0;
  bool publishes = false;  // false as soon as one of its blocks stays private

  // WAITING only.
  NodeRef waiting_on;     // a PENDING node of a running sequence, the next one that it needs
  NodeRef waiting_until;  // the last one that it needs of those which that sequence has promised
};

}  // namespace quire

#endif  // QUIRE_SCHEDULER_SEQUENCE_H_
