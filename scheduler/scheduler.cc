#include "scheduler/scheduler.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/check.h"
#include "paged_kv/capacity.h"
#include "paged_kv/eviction_lru.h"

namespace quire {

namespace {

SchedulerConfig WithModelLength(SchedulerConfig config) {
  // Sums of two lengths stay far from the end of int32.
  if (config.max_model_len == 0) config.max_model_len = std::numeric_limits<int32_t>::max() / 4;
  return config;
}

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config)
    : config_(WithModelLength(config)),
      num_groups_(static_cast<int32_t>(config.group_windows.size())),
      pool_(config.num_blocks, config.block_shuffle_seed),
      cache_({.block_size = config.block_size,
              .group_windows = config.group_windows,
              .hash_bits = config.prefix_hash_bits},
             &pool_, std::make_unique<LruEviction>(config.num_blocks)),
      free_seq_slots_(config.max_num_seqs),
      plans_(config.max_steps_in_flight),
      watermark_(config.num_blocks) {
  QUIRE_CHECK(config.max_num_seqs > 0 && config.max_num_batched_tokens > config.max_num_seqs,
              "every running sequence gets a row");
  QUIRE_CHECK(config.max_logit_rows >= config.max_num_seqs, "every running sequence may draw");
  QUIRE_CHECK(config.max_steps_in_flight > 0, "steps are taken");
  std::iota(free_seq_slots_.rbegin(), free_seq_slots_.rend(), 0);
  for (StepPlan& plan : plans_) plan.sequences.reserve(config.max_num_seqs);
}

Scheduler::~Scheduler() = default;

bool Scheduler::QueueOrder::operator()(const Sequence* a, const Sequence* b) const {
  if (a->priority != b->priority) {
    return a->priority > b->priority;
  }
  return a->IsOlderThan(*b);
}

// ---- life and death of sequences ----

absl::StatusOr<AddResult> Scheduler::Add(SequenceId id, std::shared_ptr<const Request> request,
                                         TimeUs now) {
  QUIRE_CHECK(id > 0 && Find(id) == nullptr && request->num_choices > 0, "a new id, and choices");
  QUIRE_CHECK(!request->prompt_token_ids.empty(), "a prompt");
  const auto num_tokens = static_cast<int64_t>(request->prompt_token_ids.size());
  if (absl::Status status = CheckCanEverFit(*request); !status.ok()) return status;
  if (absl::Status status = CheckQueueHasRoom(num_tokens); !status.ok()) return status;

  Sequence* const sequence = NewSequence(id, std::move(request));
  sequence->num_unborn = sequence->request->num_choices - 1;
  sequence->arrival = next_arrival_++;
  sequence->added_at = now;
  EnterQueue(sequence);

  AddResult result;
  result.queue_position =
      static_cast<int32_t>(std::distance(waiting_.begin(), waiting_.find(sequence)));
  result.cached_tokens = FindPrefix(*sequence).num_tokens;
  return result;
}

Sequence* Scheduler::NewSequence(SequenceId id, std::shared_ptr<const Request> request) {
  auto owned = std::make_unique<Sequence>(id, std::move(request), num_groups_);
  Sequence* const sequence = owned.get();
  sequence->full_reservation =
      config_.admission == AdmissionMode::kReserve || config_.max_preemptions == 0;
  sequences_[id] = std::move(owned);
  return sequence;
}

void Scheduler::End(SequenceId id, EndReason reason) { end_requests_.push_back({id, reason}); }

Sequence* Scheduler::Find(SequenceId id) const {
  const auto found = sequences_.find(id);
  return found == sequences_.end() ? nullptr : found->second.get();
}

void Scheduler::EnterQueue(Sequence* sequence) {
  sequence->is_running = false;
  sequence->times_passed = 0;
  waiting_.insert(sequence);
  queued_tokens_ += static_cast<int64_t>(sequence->tokens.size());
  next_due_ = std::min(next_due_, sequence->due_at());
}

void Scheduler::LeaveQueue(Sequence* sequence) {
  QUIRE_CHECK(waiting_.erase(sequence) == 1, "it waits");
  queued_tokens_ -= static_cast<int64_t>(sequence->tokens.size());
  sequence->waiting_on = {};
  sequence->waiting_until = {};
}

void Scheduler::DropResources(Sequence* sequence) {
  LeavePrefix(sequence);
  sequence->table.DropAll(sequence->last_step, &pool_);
  free_seq_slots_.push_back(sequence->seq_slot);
  sequence->seq_slot = -1;
  running_.erase(std::find(running_.begin(), running_.end(), sequence));
}

void Scheduler::EndSequence(Sequence* sequence, EndReason reason, std::vector<EndedSequence>* ended,
                            int32_t stop_token_id) {
  if (sequence->is_running) {
    DropResources(sequence);
  } else {
    LeaveQueue(sequence);
  }
  EndedSequence end;
  end.id = sequence->id;
  end.choice = sequence->choice;
  end.reason = reason;
  end.stop_token_id = stop_token_id;
  end.prompt_tokens = sequence->num_prompt_tokens;
  end.cached_tokens = sequence->cached_tokens;
  end.completion_tokens = sequence->num_generated();
  end.num_preemptions = sequence->num_preemptions;
  end.added_at = sequence->added_at;
  end.first_scheduled_at = sequence->first_scheduled_at;
  ended->push_back(end);
  for (int32_t i = 0; i < sequence->num_unborn; ++i) {
    ++end.id;
    ++end.choice;
    ended->push_back(end);
  }
  sequences_.erase(sequence->id);
}

void Scheduler::EndRequested(std::vector<EndedSequence>* ended) {
  for (const auto& [id, reason] : end_requests_) {
    if (Sequence* sequence = Find(id)) EndSequence(sequence, reason, ended);
  }
  end_requests_.clear();
}

void Scheduler::EndOverdue(TimeUs now, std::vector<EndedSequence>* ended) {
  if (now < next_due_) return;
  next_due_ = kNever;
  std::vector<std::pair<Sequence*, EndReason>> overdue;
  const auto check = [&](Sequence* sequence) {
    const Request& request = *sequence->request;
    if (now >= request.deadline) {
      overdue.push_back({sequence, EndReason::kDeadline});
    } else if (now >= request.time_limit) {
      overdue.push_back({sequence, EndReason::kTimeLimit});
    } else if (now >= request.queue_deadline && sequence->first_scheduled_at == kNever) {
      overdue.push_back({sequence, EndReason::kQueueTimeout});
    } else {
      next_due_ = std::min(next_due_, sequence->due_at());
    }
  };
  for (Sequence* sequence : running_) check(sequence);
  for (Sequence* sequence : waiting_) check(sequence);
  for (const auto& [sequence, reason] : overdue) EndSequence(sequence, reason, ended);
}

// ---- the phases of a plan ----

const StepPlan& Scheduler::Plan(TimeUs now) {
  QUIRE_CHECK(num_in_flight() < config_.max_steps_in_flight, "commit before planning on");
  StepPlan& plan = plans_[next_step_id_ % plans_.size()];
  plan.Restart(next_step_id_);
  if (!is_touch_told_) pool_.SetTouched(config_.num_blocks);
  cache_.SetNow(now);
  EndRequested(&plan.ended);
  EndOverdue(now, &plan.ended);

  OrderRunning();
  DropOutOfWindow();
  Draft draft{.now = now, .budget = SetAsideRows(), .plan = plan};
  PlanRunning(&draft);
  AdmitWaiting(&draft);
  FinishPlan(plan);
  EndCall();
  return plan;
}

StepBudget Scheduler::SetAsideRows() const {
  const bool anything_decodes =
      std::any_of(running_.begin(), running_.end(),
                  [](const Sequence* sequence) { return sequence->is_decoding(); });
  StepBudget budget(config_, anything_decodes);
  for (const Sequence* sequence : running_) {
    if (sequence->num_remaining() > 0) budget.SetAside(sequence->num_computed_tokens);
  }
  return budget;
}

// The index of the first block of `group` that a position sees.
int32_t Scheduler::FirstBlockSeen(int32_t group, int32_t position) const {
  return FirstVisibleBlock(config_.group_windows[group], position, config_.block_size);
}

void Scheduler::DropOutOfWindow() {
  for (Sequence* sequence : running_) {
    for (int32_t group = 0; group < num_groups_; ++group) {
      if (config_.group_windows[group] == 0) continue;
      sequence->table.DropBefore(group, FirstBlockSeen(group, sequence->num_computed_tokens),
                                 sequence->last_step, &pool_);
    }
  }
}

void Scheduler::PlanRunning(Draft* draft) {
  draft->reserved_claims = ReservedClaims();
  // Victims come from the back, so those in front of `i` are planned and stay.
  for (size_t i = 0; i < running_.size();) {
    if (PlanOneRunning(running_[i], draft) != Room::kPreempted) ++i;
  }
  watermark_.OnStep(draft->has_preempted);
}

Scheduler::Room Scheduler::PlanOneRunning(Sequence* sequence, Draft* draft) {
  const int32_t remaining = sequence->num_remaining();
  if (remaining == 0) return Room::kLater;
  const int32_t position = sequence->num_computed_tokens;
  const bool wants_rows = sequence->WantsPromptRow(position);
  int32_t num_tokens =
      1 + draft->budget.LargestChunk(position + 1, CapChunk(*sequence, position, remaining) - 1,
                                     wants_rows);
  if (NewBlocks(*sequence, position + num_tokens) > 0) {
    num_tokens = FitToBlocks(*sequence, num_tokens, *draft);
    const Room room = MakeRoom(sequence, NewBlocks(*sequence, position + num_tokens), draft);
    if (room != Room::kNow) return room;
    const int32_t reserved_before = ReservedClaimOf(*sequence);
    TakeBlocks(sequence, position + num_tokens);
    draft->reserved_claims += ReservedClaimOf(*sequence) - reserved_before;
  }
  draft->budget.Spend(position + 1, num_tokens - 1, wants_rows ? num_tokens - 1 : 0);
  PlanChunk(sequence, num_tokens, draft);
  return Room::kNow;
}

// A chunk's rows are either all owed to the listener or none is.
int32_t Scheduler::CapChunk(const Sequence& sequence, int32_t position, int32_t wanted) const {
  for (const int32_t border : {sequence.num_prompt_rows_told, sequence.num_prompt_tokens}) {
    const bool is_border = sequence.WantsPromptRow(border - 1) != sequence.WantsPromptRow(border);
    if (is_border && position < border) wanted = std::min(wanted, border - position);
  }
  return wanted;
}

void Scheduler::PlanChunk(Sequence* sequence, int32_t num_tokens, Draft* draft) {
  PlannedSequence& planned = draft->plan.sequences.emplace_back();
  planned.id = sequence->id;
  planned.seq_slot = sequence->seq_slot;
  planned.first_position = sequence->num_computed_tokens;
  planned.num_tokens = num_tokens;
  const int32_t end = planned.first_position + num_tokens;
  const absl::Span<const int32_t> tokens = sequence->tokens;
  const size_t begin = std::min(static_cast<size_t>(planned.first_position), tokens.size());
  if (num_tokens == 1 && begin + 1 == tokens.size()) {
    planned.token_ids.push_back(sequence->last_token);
  } else {
    const absl::Span<const int32_t> known = tokens.subspan(begin, num_tokens);
    planned.token_ids.assign(known.begin(), known.end());
    planned.token_ids.resize(num_tokens, -1 - sequence->seq_slot);
  }
  planned.block_tables = sequence->table.ids();
  planned.last_row_cached = std::exchange(sequence->last_token_cached, false);
  // What others read too is never written. Blocks after the first one were taken just now.
  for (int32_t group = 0; group < num_groups_ && planned.num_written() > 0; ++group) {
    const BlockId block = sequence->table.at(group, planned.first_position / config_.block_size);
    QUIRE_CHECK(pool_.num_holders(block) == 1 && !pool_.is_cached(block), "writes its own block");
  }
  if (end == sequence->num_tokens() && sequence->max_tokens > 0) {
    planned.first_choice = sequence->choice;
    planned.num_draws = 1 + (sequence->num_draws_in_flight == 0 ? sequence->num_unborn : 0);
  }
  planned.wants_prompt_rows = sequence->WantsPromptRow(planned.first_position);
  if (end < sequence->num_prompt_tokens) planned.next_token_id = tokens[end];
  planned.request = sequence->request.get();

  sequence->num_computed_tokens = end;
  sequence->num_draws_in_flight += planned.num_draws > 0;
  ++sequence->num_steps_in_flight;
  sequence->last_step = draft->plan.step_id;
  sequence->first_scheduled_at = std::min(sequence->first_scheduled_at, draft->now);
  draft->plan.num_tokens += num_tokens;
  counters_.num_kv_rows += planned.num_written();
}

void Scheduler::FinishPlan(const StepPlan& plan) {
  if (plan.num_tokens == 0) {
    // Liveness: with nothing on its way, something moves or ends in every plan.
    QUIRE_CHECK(sequences_.empty() || !plan.ended.empty() || num_in_flight() > 0 ||
                    pool_.num_touched() < pool_.num_blocks(),
                "the scheduler never hangs");
    return;
  }
  ++next_step_id_;  // in flight
  ++counters_.num_steps;
  counters_.max_seqs_in_step =
      std::max(counters_.max_seqs_in_step, static_cast<int32_t>(plan.sequences.size()));
}

// ---- what others may know ----

void Scheduler::SetTouchedBlocks(int32_t n) {
  is_touch_told_ = true;
  pool_.SetTouched(n);
}

bool Scheduler::HasWork() const { return !sequences_.empty() || num_in_flight() > 0; }

SchedulerStats Scheduler::Stats() const {
  SchedulerStats stats = counters_;
  stats.num_running = static_cast<int32_t>(running_.size());
  stats.num_waiting = static_cast<int32_t>(waiting_.size());
  stats.queued_prefill_tokens = queued_tokens_;
  stats.blocks_total = pool_.num_blocks();
  stats.blocks_held = pool_.num_held();
  stats.blocks_cached = pool_.num_cached_unheld();
  stats.blocks_leaked = NumLeakedBlocks();
  return stats;
}

}  // namespace quire
