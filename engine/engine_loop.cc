#include "engine/engine_loop.h"

#include <array>
#include <chrono>
#include <pthread.h>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

// How long the engine thread sleeps when nothing is to do; also the longest gap in its heartbeat.
constexpr absl::Duration kIdleWait = absl::Milliseconds(500);
// Blocks of how many of the largest steps are touched ahead of need.
constexpr int32_t kSpareSteps = 2;

}  // namespace

TimeUs MonotonicNow() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

EngineLoop::EngineLoop(EngineParts parts)
    : info_(std::move(parts.info)),
      backend_(std::move(parts.backend)),
      transformer_(std::move(parts.transformer)),
      spare_blocks_(kSpareSteps * (parts.limits.max_num_tokens / parts.scheduler_config.block_size +
                                   parts.limits.max_num_seqs)),
      inbox_(parts.scheduler_config.max_queued_requests),
      kv_storage_(std::move(parts.kv_storage)),
      heartbeat_(MonotonicNow()),
      scheduler_(parts.scheduler_config),
      batch_(parts.limits, static_cast<int>(parts.scheduler_config.group_windows.size()),
             parts.scheduler_config.block_size) {
  PublishStats();
  kv_storage_->StartTouching([this] { inbox_.Wake(); });
  thread_ = std::thread([this] { Loop(); });
}

EngineLoop::~EngineLoop() {
  inbox_.Stop();
  thread_.join();
}

absl::StatusOr<SequenceId> EngineLoop::Submit(std::shared_ptr<const Request> request,
                                              std::shared_ptr<TokenListener> listener) {
  const int num_choices = request->num_choices;
  const SequenceId id = next_id_.fetch_add(num_choices, std::memory_order_relaxed);
  Submission submission{id, std::move(request), std::move(listener)};
  if (TokenEdits::Needed(*submission.request)) {
    // Here and not on the engine thread: a long prompt takes milliseconds to count.
    for (int i = 0; i < num_choices; ++i) {
      submission.edits.push_back(
          std::make_unique<TokenEdits>(submission.request, info_.vocab_size));
    }
  }
  if (!inbox_.Put(std::move(submission))) {
    return absl::ResourceExhaustedError(
        "QUEUE_FULL: the engine's inbox is full or closed; try again later");
  }
  return id;
}

void EngineLoop::End(SequenceId id, EndReason reason) { inbox_.Put(Ending{id, reason}); }

void EngineLoop::EndQueued() { inbox_.EndQueued(); }

SchedulerStats EngineLoop::Stats() const {
  absl::MutexLock lock(&stats_mutex_);
  return stats_;
}

StepTimes EngineLoop::Times() const {
  absl::MutexLock lock(&stats_mutex_);
  return times_;
}

std::string EngineLoop::LeakReport() const {
  absl::MutexLock lock(&stats_mutex_);
  return leak_report_;
}

void EngineLoop::Loop() {
  pthread_setname_np(pthread_self(), "quire-engine");
  while (TakeInbox(idle_ ? kIdleWait : absl::ZeroDuration())) Step();
  for (const auto& [id, live] : live_) scheduler_.End(id, EndReason::kDraining);
  TellEnded(scheduler_.Plan(Now()).ended);
  HandOver();
}

// Hops 4 to 12 of a token's way. Statistics are published before anybody hears of the step, so that
// whoever was told of an end finds it counted.
void EngineLoop::Step() {
  std::array<TimeUs, kNumStepPhases> took_us = {};
  TimeUs since = Now();
  const auto took = [&](StepPhase phase) {
    const TimeUs now = Now();
    took_us[static_cast<size_t>(phase)] = now - since;
    since = now;
  };
  scheduler_.SetTouchedBlocks(kv_storage_->touched_blocks());
  const StepPlan& plan = scheduler_.Plan(since);
  if (!plan.ended.empty()) PublishStats();
  TellEnded(plan.ended);
  HandOver();  // before the step: whoever was accepted or cancelled does not wait for it
  idle_ = plan.num_tokens == 0;
  PaceTouching();
  took(StepPhase::kPlan);
  if (!idle_) {
    const absl::StatusOr<StepResult> result = Run(plan);
    took(StepPhase::kRun);
    const CommitResult& commit =
        result.ok() ? scheduler_.Commit(plan.step_id, ResultsOf(plan, *result), Now())
                    : scheduler_.CommitFailed(plan.step_id, Now());
    took(StepPhase::kCommit);
    PublishStats();
    if (result.ok()) TellPromptRows(plan, *result);
    TellTokens(plan, result.ok() ? &*result : nullptr, commit);
    TellEnded(commit.ended);
    HandOver();
    took(StepPhase::kTell);
    absl::MutexLock lock(&stats_mutex_);
    times_.Add(took_us, since);
  }
  heartbeat_.store(Now(), std::memory_order_relaxed);
}

void EngineLoop::PaceTouching() {
  if (kv_storage_->touched_blocks() == info_.num_blocks) return;
  const SchedulerStats stats = scheduler_.Stats();
  const int32_t to_spare = kv_storage_->touched_blocks() - stats.blocks_held - stats.blocks_cached;
  // Whoever waits may wait for memory.
  kv_storage_->PauseTouching(!idle_ && stats.num_waiting == 0 && to_spare >= spare_blocks_);
}

bool EngineLoop::TakeInbox(absl::Duration timeout) {
  inbox_.Take(timeout, &taken_);
  for (Submission& submission : taken_.submissions) Accept(std::move(submission));
  for (const Ending& ending : taken_.endings) scheduler_.End(ending.id, ending.reason);
  if (taken_.end_queued) {
    for (const auto& [id, live] : live_) {
      if (!live.planned) scheduler_.End(id, EndReason::kDraining);
    }
  }
  return !taken_.stop;
}

void EngineLoop::Accept(Submission submission) {
  was_asked_ = true;
  const absl::StatusOr<AddResult> added = scheduler_.Add(submission.id, submission.request, Now());
  if (!added.ok()) {
    submission.listener->OnRefused(added.status());
    return;
  }
  submission.listener->OnAccepted(added->queue_position, added->cached_tokens);
  const auto num_prompt_tokens = static_cast<int>(submission.request->prompt_token_ids.size());
  for (int i = 0; i < submission.request->num_choices; ++i) {
    Live& live = live_[submission.id + i];
    live.listener = submission.listener;
    live.num_prompt_tokens = num_prompt_tokens;
    if (!submission.edits.empty()) live.edits = std::move(submission.edits[i]);
  }
}

absl::StatusOr<StepResult> EngineLoop::Run(const StepPlan& plan) {
  batch_.Build(plan, [this](SequenceId id) {
    const Live& live = live_[id];
    return live.edits == nullptr ? LogitEdits{} : live.edits->Next();
  });
  for (const PlannedSequence& sequence : plan.sequences) {
    live_[sequence.id].planned = true;
    for (int i = 1; i < sequence.num_draws; ++i) live_[sequence.id + i].planned = true;
  }
  const StepTicket ticket = backend_->Launch(
      batch_.step(), [this](const StepShape& shape) { transformer_->Forward(*backend_, shape); });
  return backend_->Collect(ticket);
}

absl::Span<const SequenceResult> EngineLoop::ResultsOf(const StepPlan& plan,
                                                       const StepResult& result) {
  results_.assign(plan.sequences.size(), {});
  for (size_t i = 0; i < results_.size(); ++i) {
    const int first_sample = batch_.outputs()[i].first_sample;
    results_[i].finite = result.seq_finite[i] != 0;
    if (first_sample >= 0) {
      results_[i].token_ids = result.sampled.subspan(first_sample, plan.sequences[i].num_draws);
    }
  }
  return results_;
}

void EngineLoop::TellPromptRows(const StepPlan& plan, const StepResult& result) {
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& sequence = plan.sequences[i];
    if (!sequence.wants_prompt_rows || result.seq_finite[i] == 0) continue;
    Live& live = live_[sequence.id];
    for (int row = 0; row < sequence.num_tokens; ++row) {
      const int position = sequence.first_position + row;
      if (position < live.next_prompt_row || position >= live.num_prompt_tokens) continue;
      live.next_prompt_row = position + 1;
      TellPromptRow(sequence, batch_.outputs()[i], row, result, *live.listener);
    }
  }
}

void EngineLoop::TellPromptRow(const PlannedSequence& sequence, const Batch::Outputs& out, int row,
                               const StepResult& result, TokenListener& listener) {
  const int position = sequence.first_position + row;
  if (out.first_prompt_tap >= 0)
    listener.OnPromptLogits(position, LogitsOf(result, out.first_prompt_tap + row));
  const bool is_scored = row + 1 < sequence.num_tokens || sequence.next_token_id >= 0;
  if (out.first_prompt_logprob >= 0 && is_scored) {
    listener.OnPromptLogprobs(position + 1, result.logprobs[out.first_prompt_logprob + row]);
  }
}

absl::Span<const float> EngineLoop::LogitsOf(const StepResult& result, int tap) const {
  return result.logits.subspan(static_cast<size_t>(tap) * info_.vocab_size, info_.vocab_size);
}

void EngineLoop::TellTokens(const StepPlan& plan, const StepResult* result,
                            const CommitResult& commit) {
  size_t i = 0;  // tokens come in the order of the plan
  for (const NewToken& token : commit.tokens) {
    const auto is_of = [&token](const PlannedSequence& sequence) {
      return token.id >= sequence.id && token.id < sequence.id + sequence.num_draws;
    };
    while (!is_of(plan.sequences[i])) ++i;
    const Batch::Outputs& out = batch_.outputs()[i];
    TokenScores scores;
    if (out.sample_tap >= 0) scores.logits = LogitsOf(*result, out.sample_tap);
    if (out.first_logprob >= 0) {
      scores.logprobs = &result->logprobs[out.first_logprob + (token.id - plan.sequences[i].id)];
    }
    Live& live = live_[token.id];
    if (live.edits != nullptr) live.edits->OnToken(token.token_id);
    live.listener->OnToken(token, scores);
  }
}

void EngineLoop::TellEnded(const std::vector<EndedSequence>& ended) {
  for (const EndedSequence& end : ended) {
    const auto found = live_.find(end.id);
    found->second.listener->OnEnd(end);
    live_.erase(found);
  }
}

void EngineLoop::HandOver() {
  if (was_asked_ && hand_over_) hand_over_();
}

void EngineLoop::PublishStats() {
  absl::MutexLock lock(&stats_mutex_);
  stats_ = scheduler_.Stats();
  if (stats_.blocks_leaked > 0 && leak_report_.empty()) leak_report_ = scheduler_.Dump();
}

}  // namespace quire
