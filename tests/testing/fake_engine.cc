#include "tests/testing/fake_engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "gtest/gtest.h"

namespace quire {
namespace {

constexpr auto kPatience = std::chrono::minutes(1);

TimeUs SteadyUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

ModelInfo FakeModelInfo() {
  ModelInfo info;
  info.path = "models/Fake-256";
  info.architecture = "FakeForCausalLM";
  info.weight_format = "F32";
  info.numerics_mode = "exact";
  info.backend = "none";
  info.fingerprint = "f00d";
  info.vocab_size = 300;
  info.eos_token_ids = {256};
  info.max_model_len = 4096;
  info.max_num_seqs = 4;
  info.max_num_batched_tokens = 64;
  info.block_size = 16;
  info.num_blocks = 256;
  info.kv_cache_bytes = 1 << 20;
  info.default_temperature = 0.5f;
  info.default_top_p = -1;  // says nothing
  info.default_min_p = -1;
  return info;
}

RowLogprobs FakeLogprobs(int32_t token_id, int32_t num_top) {
  RowLogprobs logprobs;
  logprobs.token = {token_id, -0.5f * static_cast<float>(token_id % 7)};
  logprobs.rank = token_id % 5 + 1;
  logprobs.num_top = num_top;
  for (int32_t i = 0; i < num_top; ++i) {
    logprobs.top[static_cast<size_t>(i)] = {i, -0.25f * static_cast<float>(i)};
  }
  return logprobs;
}

FakeEngine::FakeEngine(ModelInfo info)
    : info_(std::move(info)), started_at_(SteadyUs()), thread_([this] { Run(); }) {}

FakeEngine::~FakeEngine() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// ---- Test threads ----

void FakeEngine::Do(std::function<void()> action) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    actions_.push_back(std::move(action));
  }
  changed_.notify_all();
}

FakeEngine::Submission FakeEngine::WaitForSubmission() {
  std::unique_lock<std::mutex> lock(mu_);
  if (!changed_.wait_for(lock, kPatience, [this] { return !submissions_.empty(); })) {
    ADD_FAILURE() << "nothing was submitted";
    return {};
  }
  Submission submission = submissions_.front();
  submissions_.pop_front();
  return submission;
}

void FakeEngine::Accept(SequenceId id, int queue_position, int cached_tokens) {
  Do([=, this] {
    const auto it = sequences_.find(id);
    if (it != sequences_.end()) it->second.listener->OnAccepted(queue_position, cached_tokens);
  });
}

void FakeEngine::Refuse(SequenceId id, const absl::Status& status) {
  Do([=, this] {
    const auto it = sequences_.find(id);
    if (it == sequences_.end()) return;
    it->second.listener->OnRefused(status);
    const int32_t num_choices = it->second.request->num_choices;
    for (int32_t i = 0; i < num_choices; ++i) sequences_.erase(id + static_cast<SequenceId>(i));
    std::lock_guard<std::mutex> lock(mu_);
    num_live_ -= num_choices;
  });
}

void FakeEngine::PromptLogprobs(SequenceId id, int32_t begin, int32_t end) {
  Do([=, this] {
    const auto it = sequences_.find(id);
    if (it == sequences_.end()) return;
    const Request& request = *it->second.request;
    for (int32_t i = begin; i < end; ++i) {
      const int32_t token_id = request.prompt_token_ids[static_cast<size_t>(i)];
      it->second.listener->OnPromptLogprobs(i, FakeLogprobs(token_id, request.num_prompt_logprobs));
    }
  });
}

void FakeEngine::Tokens(SequenceId id, std::vector<int32_t> token_ids) {
  Do([this, id, token_ids = std::move(token_ids)] {
    const auto it = sequences_.find(id);
    if (it == sequences_.end()) return;
    for (const int32_t token_id : token_ids) GiveToken(id, it->second, token_id);
  });
}

void FakeEngine::Finish(SequenceId id, EndReason reason, int32_t stop_token_id) {
  Do([=, this] { EndSequence(id, reason, stop_token_id); });
}

EndReason FakeEngine::WaitForEnd(SequenceId id) {
  std::unique_lock<std::mutex> lock(mu_);
  if (!changed_.wait_for(lock, kPatience, [&] { return ends_.contains(id); })) {
    ADD_FAILURE() << "the server did not end sequence " << id;
    return EndReason::kStop;
  }
  return ends_[id];
}

void FakeEngine::WaitUntilTold() {
  bool told = false;
  Do([this, &told] {
    std::lock_guard<std::mutex> lock(mu_);
    told = true;
    changed_.notify_all();
  });
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait(lock, [&] { return told; });
}

void FakeEngine::Generate(NextToken next_token) {
  Do([this, next_token = std::move(next_token)] {
    next_token_ = next_token;
    for (auto& [id, sequence] : sequences_) {
      if (sequence.choice == 0) sequence.listener->OnAccepted(0, 0);
    }
  });
}

void FakeEngine::FailSubmits(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu_);
  submit_status_ = status;
}

void FakeEngine::WaitUntilIdle() {
  std::unique_lock<std::mutex> lock(mu_);
  EXPECT_TRUE(changed_.wait_for(lock, kPatience, [this] { return num_live_ == 0; }))
      << num_live_ << " sequences live on";
}

// ---- Engine ----

absl::StatusOr<SequenceId> FakeEngine::Submit(std::shared_ptr<const Request> request,
                                              std::shared_ptr<TokenListener> listener) {
  SequenceId id = 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!submit_status_.ok()) return submit_status_;
    id = next_id_;
    next_id_ += static_cast<SequenceId>(request->num_choices);
    submissions_.push_back({id, request});
    num_live_ += request->num_choices;
    actions_.push_back([this, id, request, listener = std::move(listener)] {
      const auto is_forked = std::make_shared<bool>(false);
      for (int32_t i = 0; i < request->num_choices; ++i) {
        Sequence& sequence = sequences_[id + static_cast<SequenceId>(i)];
        sequence.request = request;
        sequence.is_forked = is_forked;
        sequence.choice = static_cast<uint32_t>(i);
        sequence.listener = listener;
        sequence.added_at = Now();
      }
      if (next_token_) listener->OnAccepted(0, 0);
    });
  }
  changed_.notify_all();
  return id;
}

void FakeEngine::End(SequenceId id, EndReason reason) {
  Do([=, this] {
    {
      std::lock_guard<std::mutex> lock(mu_);
      ends_.emplace(id, reason);
    }
    changed_.notify_all();
    EndAsAsked(id, reason);
  });
}

void FakeEngine::EndQueued() {
  Do([this] {
    std::vector<SequenceId> queued;
    for (const auto& [id, sequence] : sequences_) {
      if (sequence.first_token_at == kNever) queued.push_back(id);
    }
    for (const SequenceId id : queued) EndSequence(id, EndReason::kDraining, -1);
  });
}

void FakeEngine::SetHandOver(std::function<void()> hand_over) {
  std::lock_guard<std::mutex> lock(mu_);
  hand_over_ = std::move(hand_over);
}

TimeUs FakeEngine::Now() const { return SteadyUs() - started_at_; }

SchedulerStats FakeEngine::Stats() const {
  SchedulerStats stats;
  stats.blocks_leaked = leaks_.load() ? 3 : 0;
  return stats;
}

TimeUs FakeEngine::Heartbeat() const { return heart_stopped_.load() ? -3'600'000'000 : Now(); }

// ---- Engine thread ----

void FakeEngine::Run() {
  std::unique_lock<std::mutex> lock(mu_);
  for (;;) {
    while (!actions_.empty()) {
      std::function<void()> action = std::move(actions_.front());
      actions_.pop_front();
      lock.unlock();
      action();
      action = nullptr;
      HandOver();
      lock.lock();
    }
    if (stopping_) break;
    lock.unlock();
    if (next_token_) Turn();
    HandOver();
    const bool busy = next_token_ && !sequences_.empty();
    lock.lock();
    if (!busy) changed_.wait(lock, [this] { return stopping_ || !actions_.empty(); });
  }
  lock.unlock();
  while (!sequences_.empty()) EndSequence(sequences_.begin()->first, EndReason::kDraining, -1);
  HandOver();
}

void FakeEngine::HandOver() {
  std::function<void()> hand_over;
  {
    std::lock_guard<std::mutex> lock(mu_);
    hand_over = hand_over_;
  }
  if (hand_over) hand_over();
}

void FakeEngine::Turn() {
  std::vector<SequenceId> ids;
  for (const auto& [id, sequence] : sequences_) ids.push_back(id);
  const TimeUs now = Now();
  for (const SequenceId id : ids) {
    const auto it = sequences_.find(id);
    if (it == sequences_.end()) continue;
    Sequence& sequence = it->second;
    const Request& request = *sequence.request;
    if (now >= request.deadline) {
      EndSequence(id, EndReason::kDeadline, -1);
      continue;
    }
    if (now >= request.time_limit) {
      EndSequence(id, EndReason::kTimeLimit, -1);
      continue;
    }
    const int32_t token_id = next_token_(request, sequence.num_tokens);
    GiveToken(id, sequence, token_id);
    const std::vector<int32_t>& stops = request.stop_token_ids;
    if (std::find(stops.begin(), stops.end(), token_id) != stops.end()) {
      EndSequence(id, EndReason::kStop, token_id);
    } else if (sequence.num_tokens >= request.max_tokens) {
      EndSequence(id, EndReason::kLength, -1);
    }
  }
}

void FakeEngine::GiveToken(SequenceId id, Sequence& sequence, int32_t token_id) {
  if (sequence.first_token_at == kNever) sequence.first_token_at = Now();
  *sequence.is_forked = true;
  const int32_t num_logprobs = sequence.request->num_logprobs;
  const RowLogprobs logprobs = FakeLogprobs(token_id, std::max(num_logprobs, 0));
  sequence.listener->OnToken({id, sequence.choice, token_id, sequence.num_tokens++},
                             {.logits = {}, .logprobs = num_logprobs < 0 ? nullptr : &logprobs});
}

void FakeEngine::EndAsAsked(SequenceId id, EndReason reason) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  const int32_t num_choices = it->second.request->num_choices;
  if (*it->second.is_forked || num_choices == 1) return EndSequence(id, reason, -1);
  if (it->second.choice > 0) return;
  for (int32_t i = 0; i < num_choices; ++i) {
    EndSequence(id + static_cast<SequenceId>(i), reason, -1);
  }
}

void FakeEngine::EndSequence(SequenceId id, EndReason reason, int32_t stop_token_id) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  const Sequence sequence = std::move(it->second);
  sequences_.erase(it);
  EndedSequence end;
  end.id = id;
  end.choice = sequence.choice;
  end.reason = reason;
  end.stop_token_id = stop_token_id;
  end.prompt_tokens = static_cast<int32_t>(sequence.request->prompt_token_ids.size());
  end.completion_tokens = sequence.num_tokens;
  end.added_at = sequence.added_at;
  end.first_scheduled_at = sequence.first_token_at;
  sequence.listener->OnEnd(end);
  {
    std::lock_guard<std::mutex> lock(mu_);
    --num_live_;
  }
  changed_.notify_all();
}

}  // namespace quire
