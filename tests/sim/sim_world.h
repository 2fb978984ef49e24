#ifndef QUIRE_TESTS_SIM_SIM_WORLD_H_
#define QUIRE_TESTS_SIM_SIM_WORLD_H_

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "scheduler/scheduler.h"
#include "tests/sim/shadow_device.h"
#include "tests/testing/kept_plan.h"

namespace quire {

// What a simulation did, so that a test can assert that it was not vacuous.
struct SimCounts {
  int64_t scenarios = 0, requests = 0, refused = 0, steps = 0, preemptions = 0, hit_tokens = 0;
  int64_t full_hits = 0, copies = 0, failed_steps = 0, faults = 0, overtakes = 0;
  int64_t draws_of_several = 0;
  int64_t ends[16] = {};
};

// SimWorld plays one random scenario, all of it from one seed: a configuration, requests that
// share prefixes, ends, deadlines and failures at any time, over the ShadowDevice. It checks what
// every caller of Scheduler relies on; a failed check names the seed.
class SimWorld {
 public:
  // `prints`: every plan and commit, for a replay.
  SimWorld(uint64_t seed, bool prints, SimCounts* counts)
      : random_(seed), prints_(prints), counts_(counts) {
    ChooseConfig();
    Print(DescribeConfig());
    scheduler_ = std::make_unique<Scheduler>(config_);
    device_ = std::make_unique<ShadowDevice>(config_);
    if (Chance(30)) scheduler_->SetTouchedBlocks(touched_ = Pick(0, 2));
  }

  void Play(int num_requests) {
    for (int turn = 0; !testing::Test::HasFailure(); ++turn) {
      now_ += Pick(0, 2000);
      if (num_requests > 0 && Chance(arrival_percent_)) --num_requests, AddRequest();
      if (touched_ >= 0) TouchMore();
      if (Chance(3)) EndSomeone();
      const bool may_plan = static_cast<int32_t>(in_flight_.size()) < config_.max_steps_in_flight;
      if (in_flight_.empty() || (may_plan && Chance(60))) {
        PlanStep();
      } else {
        CommitStep();
      }
      scheduler_->CheckInvariants();
      if (num_requests == 0 && !scheduler_->HasWork()) break;
      // Liveness: every row that can be needed was planned long ago.
      ASSERT_LT(turn, 200'000);
    }
    CheckAtTheEnd();
  }

 private:
  struct Live {
    std::shared_ptr<const Request> request;
    SequenceId first_id = 0;  // of the request's choices
    bool end_asked = false;
    int32_t num_told = 0;         // tokens
    int32_t num_prompt_rows = 0;  // logits planned
    int64_t num_rows = 0;         // planned
    int64_t num_kv_rows = 0;
    int32_t times_passed = 0;
    bool was_planned = false;
  };

  int32_t Pick(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(int percent) { return Pick(0, 99) < percent; }

  void ChooseConfig() {
    config_.block_size = 1 << Pick(1, 3);
    const std::vector<std::vector<int32_t>> groups = {
        {0}, {0}, {0}, {0, Pick(2, 20)}, {Pick(2, 20)}, {0, 0, Pick(2, 9)}, {Pick(2, 9), 16}};
    config_.group_windows = groups[Pick(0, static_cast<int32_t>(groups.size()) - 1)];
    config_.max_num_seqs = Pick(1, 6);
    config_.max_num_batched_tokens = config_.max_num_seqs + Pick(1, 40);
    config_.max_logit_rows = config_.max_num_seqs + Pick(0, 20);
    const auto num_groups = static_cast<int32_t>(config_.group_windows.size());
    config_.num_blocks = num_groups * (Pick(20, 120) / config_.block_size + 2);
    if (Chance(15)) config_.num_blocks *= 8;
    if (Chance(20)) config_.num_blocks = num_groups * Pick(6, 14);
    config_.max_queued_requests = Pick(4, 40);
    if (Chance(30)) config_.max_queued_prefill_tokens = Pick(20, 400);
    config_.max_steps_in_flight = Chance(50) ? 1 : Pick(2, 3);
    config_.admission = Chance(25) ? AdmissionMode::kReserve : AdmissionMode::kOptimistic;
    config_.prefix_caching = Chance(80);
    config_.max_preemptions = Pick(0, 3);
    config_.max_overtakes = Pick(0, 4);
    config_.max_model_len = Chance(50) ? 0 : Pick(20, 120);
    config_.block_shuffle_seed = Chance(50) ? random_() : 0;
    if (Chance(50)) {
      config_.us_per_step = Pick(0, 120'000);
      config_.us_per_row = Pick(0, 12'000);
      config_.us_per_attended = Pick(0, 100);
    }
    if (Chance(30)) config_.prefix_hash_bits = Pick(0, 3);
    fails_ = Chance(30);
    is_long_winded_ = Chance(50);
    arrival_percent_ = Pick(10, 100);
    for (int i = 0; i < 3; ++i) AppendRandom(&families_.emplace_back(), Pick(1, 30));
  }

  std::string DescribeConfig() const {
    return absl::StrCat("blocks ", config_.num_blocks, "x", config_.block_size, " windows ",
                        absl::StrJoin(config_.group_windows, ","), " seqs ", config_.max_num_seqs,
                        " tokens ", config_.max_num_batched_tokens, " depth ",
                        config_.max_steps_in_flight, " reserve ",
                        config_.admission == AdmissionMode::kReserve, " caching ",
                        config_.prefix_caching, " preemptions ", config_.max_preemptions);
  }

  void Print(const std::string& text) const {
    if (prints_) std::printf("%s\n", text.c_str());
  }

  void AppendRandom(std::vector<int32_t>* tokens, int32_t count) {
    for (int32_t i = 0; i < count; ++i) tokens->push_back(Pick(0, kVocabSize - 1));
  }

  void AddRequest() {
    auto request = std::make_shared<Request>();
    std::vector<int32_t>& prompt = request->prompt_token_ids;
    if (Chance(80)) {
      prompt = families_[Pick(0, static_cast<int32_t>(families_.size()) - 1)];
      if (Chance(50)) prompt.resize(Pick(1, static_cast<int32_t>(prompt.size())));
    }
    if (prompt.empty() || Chance(60)) AppendRandom(&prompt, Pick(1, 16));
    request->max_tokens = Chance(10) ? 0 : Pick(1, is_long_winded_ ? 60 : 16);
    request->sampling.seed = Chance(50) ? 0 : random_() % 4;
    if (Chance(is_long_winded_ ? 5 : 50)) request->stop_token_ids = {5};
    if (Chance(30)) request->priority = Pick(-2, 2);
    if (Chance(10)) request->cache_salt = "tenant";
    if (Chance(15)) request->logits = static_cast<LogitsWanted>(Pick(1, 2));
    if (Chance(8)) request->deadline = now_ + Pick(0, 100'000);
    if (Chance(8)) request->time_limit = now_ + Pick(0, 100'000);
    if (Chance(8)) request->queue_deadline = now_ + Pick(0, 50'000);
    if (Chance(25)) request->num_choices = Pick(2, 5);
    if (Chance(8)) request->num_prompt_logprobs = 0;
    const SequenceId id = next_id_;
    next_id_ += request->num_choices;
    const absl::StatusOr<AddResult> added = scheduler_->Add(id, request, now_);
    ++counts_->requests;
    if (!added.ok()) {
      ++counts_->refused;
      CheckRefusal(added.status());
      return;
    }
    Print(absl::StrCat("add ", SequenceName(id), " prompt ", prompt.size(), " max_tokens ",
                       request->max_tokens, " priority ", request->priority, " choices ",
                       request->num_choices));
    for (int32_t choice = 0; choice < request->num_choices; ++choice) {
      live_[id + choice].request = request;
      live_[id + choice].first_id = id;
      truths_[id + choice] = Truth(*request, choice, kVocabSize);
    }
  }

  void CheckRefusal(const absl::Status& status) {
    const std::string message(status.message());
    if (status.code() == absl::StatusCode::kResourceExhausted) {
      EXPECT_EQ(message.rfind("QUEUE_FULL: ", 0), 0u) << message;
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_TRUE(message.rfind("CONTEXT_LENGTH_EXCEEDED: ", 0) == 0 ||
                  message.rfind("REQUEST_EXCEEDS_KV_CAPACITY: ", 0) == 0)
          << message;
    }
  }

  void TouchMore() {
    if (!Chance(30) || touched_ == config_.num_blocks) return;
    touched_ = std::min(config_.num_blocks, touched_ + Pick(1, 5));
    scheduler_->SetTouchedBlocks(touched_);
  }

  void EndSomeone() {
    if (next_id_ == 1) return;
    const SequenceId id = static_cast<SequenceId>(Pick(1, static_cast<int32_t>(next_id_) - 1));
    scheduler_->End(id, Chance(50) ? EndReason::kCancelled : EndReason::kAborted);
    const auto found = live_.find(id);
    if (found == live_.end()) return;
    found->second.end_asked = true;
    if (found->second.first_id != id) return;
    // Ends those, too, that have not come out of it yet.
    for (auto& [other_id, other] : live_) {
      if (other.first_id == id && other.num_told == 0) other.end_asked = true;
    }
  }

  void PlanStep() {
    const StepPlan plan = scheduler_->Plan(now_);
    Print(absl::StrCat("plan ", plan.step_id, ": ", plan.Describe()));
    Told(plan.ended);
    ASSERT_EQ(device_->Accept(plan), "") << plan.Describe();
    for (const PlannedSequence& planned : plan.sequences) NotePlanned(planned);
    counts_->copies += static_cast<int64_t>(plan.copies.size());
    if (plan.num_tokens > 0) in_flight_.emplace_back(plan);
  }

  void NotePlanned(const PlannedSequence& planned) {
    const auto found = live_.find(planned.id);
    ASSERT_NE(found, live_.end()) << "an ended sequence is planned";
    Live& live = found->second;
    const auto num_prompt = static_cast<int32_t>(live.request->prompt_token_ids.size());
    live.num_rows += planned.num_tokens;
    live.num_kv_rows += planned.num_tokens - planned.last_row_cached;
    counts_->full_hits += planned.last_row_cached;
    counts_->draws_of_several += planned.num_draws > 1;
    // Each row is computed once, and once more for every preemption.
    EXPECT_LE(live.num_rows,
              int64_t{num_prompt + live.request->max_tokens} * (config_.max_preemptions + 1));
    if (planned.wants_prompt_rows) {
      // All prompt rows, in order; again only where a step in flight was lost to a preemption.
      EXPECT_TRUE(WantsPromptRows(*live.request));
      EXPECT_EQ(planned.first_position, live.num_prompt_rows);
      live.num_prompt_rows += planned.num_tokens;
      EXPECT_LE(live.num_prompt_rows, num_prompt);
    }
    // Later choices come out of the first one, in no queue.
    if (!live.was_planned && live.first_id == planned.id) NotePassing(planned.id);
    for (int32_t i = 0; i < std::max(1, planned.num_draws); ++i) {
      live_[planned.id + i].was_planned = true;
    }
  }

  // Without shared prefixes, only a request that waits for blocks is passed by a later one.
  void NotePassing(SequenceId id) {
    const int32_t priority = live_[id].request->priority;
    for (auto& [other_id, other] : live_) {
      if (other_id >= id || other_id != other.first_id || other.was_planned ||
          other.request->priority < priority)
        continue;
      ++counts_->overtakes;
      if (config_.prefix_caching) continue;
      EXPECT_LE(++other.times_passed, config_.max_overtakes) << "request " << other_id;
    }
  }

  void CommitStep() {
    const KeptPlan plan = std::move(in_flight_.front());
    in_flight_.pop_front();
    std::vector<SequenceResult> results;
    ASSERT_EQ(device_->Run(plan, truths_, &results), "") << plan.Describe();
    ++counts_->steps;
    if (fails_ && Chance(3)) {
      ++counts_->failed_steps;
      const CommitResult committed = scheduler_->CommitFailed(plan.step_id, now_);
      EXPECT_TRUE(committed.tokens.empty());
      Told(committed.ended);
      for (const PlannedSequence& planned : plan.sequences) {
        for (int32_t i = 0; i < std::max(1, planned.num_draws); ++i) {
          EXPECT_FALSE(live_.contains(planned.id + i)) << "outlived its failed step";
        }
      }
    } else {
      for (SequenceResult& result : results) {
        if (fails_ && Chance(2)) result.finite = false;
      }
      const CommitResult committed = scheduler_->Commit(plan.step_id, results, now_);
      Print(absl::StrCat("commit ", plan.step_id, ": ", DescribeEnded(committed.ended)));
      for (const NewToken& token : committed.tokens) ToldToken(token);
      Told(committed.ended);
    }
    device_->Forget(plan.step_id);
  }

  void ToldToken(const NewToken& token) {
    const auto found = live_.find(token.id);
    ASSERT_NE(found, live_.end());
    Live& live = found->second;
    EXPECT_EQ(token.index, live.num_told++) << "tokens come once, in order";
    const size_t position = live.request->prompt_token_ids.size() + token.index;
    ASSERT_LT(position, truths_[token.id].tokens.size());
    EXPECT_EQ(token.token_id, truths_[token.id].tokens[position]) << "not what it gets alone";
  }

  void Told(const std::vector<EndedSequence>& ended) {
    for (const EndedSequence& end : ended) {
      const auto found = live_.find(end.id);
      ASSERT_NE(found, live_.end()) << "sequence " << end.id << " ends twice";
      CheckEnd(end, found->second);
      ++counts_->ends[static_cast<int>(end.reason)];
      counts_->preemptions += end.num_preemptions;
      counts_->hit_tokens += end.cached_tokens;
      if (Chance(30)) {  // the next turn of a conversation
        std::vector<int32_t>& family = families_[Pick(0, 2)];
        const auto& tokens = truths_[end.id].tokens;
        family.assign(tokens.begin(), tokens.begin() + end.prompt_tokens + end.completion_tokens);
        if (family.size() > 40) family.resize(40);
      }
      live_.erase(found);
      truths_.erase(end.id);
    }
  }

  static bool WantsPromptRows(const Request& request) {
    return request.logits == LogitsWanted::kPromptAndGenerated || request.num_prompt_logprobs >= 0;
  }

  void CheckEnd(const EndedSequence& end, const Live& live) {
    EXPECT_EQ(end.id, live.first_id + end.choice);
    const auto num_prompt = static_cast<int32_t>(live.request->prompt_token_ids.size());
    EXPECT_EQ(end.prompt_tokens, num_prompt);
    EXPECT_EQ(end.completion_tokens, live.num_told);
    EXPECT_LE(end.cached_tokens, num_prompt);
    const bool reserves = config_.admission == AdmissionMode::kReserve;
    EXPECT_LE(end.num_preemptions, reserves ? 0 : config_.max_preemptions);
    if (end.reason == EndReason::kCancelled || end.reason == EndReason::kAborted) {
      EXPECT_TRUE(live.end_asked);
    }
    if (end.reason == EndReason::kEngineFailed || end.reason == EndReason::kNumericalFault) {
      EXPECT_TRUE(fails_);
    }
    if (end.reason == EndReason::kQueueTimeout) {
      EXPECT_FALSE(live.was_planned);
    }
    const bool is_whole = end.reason == EndReason::kLength;
    if (is_whole) {
      EXPECT_EQ(live.num_told, live.request->max_tokens);
    }
    if (is_whole && WantsPromptRows(*live.request)) {
      EXPECT_EQ(live.num_prompt_rows, end.choice == 0 ? num_prompt : 0);
    }
    if (is_whole && end.num_preemptions == 0 && end.choice == 0) {
      EXPECT_EQ(live.num_kv_rows + end.cached_tokens,
                num_prompt + std::max(0, live.request->max_tokens - 1));
    }
  }

  void CheckAtTheEnd() {
    if (testing::Test::HasFailure()) return;
    EXPECT_TRUE(live_.empty());
    const SchedulerStats stats = scheduler_->Stats();
    EXPECT_EQ(stats.blocks_held, 0);
    EXPECT_EQ(stats.num_running + stats.num_waiting, 0);
    EXPECT_EQ(stats.queued_prefill_tokens, 0);
    if (!config_.prefix_caching) {
      EXPECT_EQ(stats.blocks_cached, 0);
    }
    ++counts_->scenarios;
  }

  static constexpr int32_t kVocabSize = 12;

  std::mt19937_64 random_;
  const bool prints_;
  SimCounts* const counts_;
  SchedulerConfig config_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ShadowDevice> device_;
  std::deque<KeptPlan> in_flight_;
  std::map<SequenceId, Live> live_;
  std::map<SequenceId, Truth> truths_;
  std::vector<std::vector<int32_t>> families_;  // prefixes that requests share
  SequenceId next_id_ = 1;
  TimeUs now_ = 0;
  int32_t touched_ = -1;  // -1: all from the start
  bool fails_ = false;
  bool is_long_winded_ = false;
  int arrival_percent_ = 0;
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_SIM_WORLD_H_
