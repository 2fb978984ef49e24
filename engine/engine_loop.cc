#include "engine/engine_loop.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

// How long the engine thread sleeps when nothing is to do; also the longest gap in its heartbeat.
constexpr absl::Duration kIdleWait = absl::Milliseconds(500);

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
  const SequenceId id = next_id_.fetch_add(1, std::memory_order_relaxed);
  if (!inbox_.Put({id, std::move(request), std::move(listener)})) {
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

void EngineLoop::Loop() {
  while (TakeInbox(idle_ ? kIdleWait : absl::ZeroDuration())) Step();
  for (const auto& [id, live] : live_) scheduler_.End(id, EndReason::kDraining);
  TellEnded(scheduler_.Plan(Now()).ended);
}

// Hops 4 to 12 of a token's way. Statistics are published before anybody hears of the step, so that
// whoever was told of an end finds it counted.
void EngineLoop::Step() {
  scheduler_.SetTouchedBlocks(kv_storage_->touched_blocks());
  const StepPlan plan = scheduler_.Plan(Now());
  if (!plan.ended.empty()) PublishStats();
  TellEnded(plan.ended);  // before the step: whoever cancelled does not wait for it
  idle_ = plan.num_tokens == 0;
  if (!idle_) {
    const absl::StatusOr<StepResult> result = Run(plan);
    const CommitResult commit =
        result.ok() ? scheduler_.Commit(plan.step_id, ResultsOf(plan, *result), Now())
                    : scheduler_.CommitFailed(plan.step_id, Now());
    PublishStats();
    if (result.ok()) TellLogitsOfPrompts(plan, *result);
    TellTokens(plan, result.ok() ? &*result : nullptr, commit);
    TellEnded(commit.ended);
  }
  heartbeat_.store(Now(), std::memory_order_relaxed);
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
  const absl::StatusOr<AddResult> added = scheduler_.Add(submission.id, submission.request, Now());
  if (!added.ok()) {
    submission.listener->OnRefused(added.status());
    return;
  }
  submission.listener->OnAccepted(added->queue_position, added->cached_tokens);
  live_[submission.id] = {
      .listener = std::move(submission.listener),
      .num_prompt_tokens = static_cast<int>(submission.request->prompt_token_ids.size())};
}

absl::StatusOr<StepResult> EngineLoop::Run(const StepPlan& plan) {
  batch_.Build(plan);
  for (const PlannedSequence& sequence : plan.sequences) live_[sequence.id].planned = true;
  const StepTicket ticket = backend_->Launch(
      batch_.step(), [this](const StepShape& shape) { transformer_->Forward(*backend_, shape); });
  return backend_->Collect(ticket);
}

std::vector<SequenceResult> EngineLoop::ResultsOf(const StepPlan& plan,
                                                  const StepResult& result) const {
  std::vector<SequenceResult> results(plan.sequences.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const int sample = batch_.outputs()[i].sample;
    results[i].finite = result.seq_finite[i] != 0;
    if (sample >= 0) results[i].token_id = result.sampled[sample];
  }
  return results;
}

void EngineLoop::TellLogitsOfPrompts(const StepPlan& plan, const StepResult& result) {
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& sequence = plan.sequences[i];
    if (!sequence.wants_prompt_logits || result.seq_finite[i] == 0) continue;
    Live& live = live_[sequence.id];
    for (int row = 0; row < sequence.num_tokens; ++row) {
      const int position = sequence.first_position + row;
      if (position < live.next_prompt_logits || position >= live.num_prompt_tokens) continue;
      live.next_prompt_logits = position + 1;
      const size_t tap = batch_.outputs()[i].first_prompt_tap + row;
      live.listener->OnPromptLogits(
          position, result.logits.subspan(tap * info_.vocab_size, info_.vocab_size));
    }
  }
}

void EngineLoop::TellTokens(const StepPlan& plan, const StepResult* result,
                            const CommitResult& commit) {
  size_t i = 0;  // tokens come in the order of the plan
  for (const NewToken& token : commit.tokens) {
    while (plan.sequences[i].id != token.id) ++i;
    const int tap = batch_.outputs()[i].sample_tap;
    absl::Span<const float> logits;
    if (tap >= 0 && plan.sequences[i].wants_logits) {
      logits =
          result->logits.subspan(static_cast<size_t>(tap) * info_.vocab_size, info_.vocab_size);
    }
    live_[token.id].listener->OnToken(token, logits);
  }
}

void EngineLoop::TellEnded(const std::vector<EndedSequence>& ended) {
  for (const EndedSequence& end : ended) {
    const auto found = live_.find(end.id);
    found->second.listener->OnEnd(end);
    live_.erase(found);
  }
}

void EngineLoop::PublishStats() {
  absl::MutexLock lock(&stats_mutex_);
  stats_ = scheduler_.Stats();
}

}  // namespace quire
