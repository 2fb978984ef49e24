#ifndef QUIRE_TESTS_SCHEDULER_SCHEDULER_FIXTURE_H_
#define QUIRE_TESTS_SCHEDULER_SCHEDULER_FIXTURE_H_

#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "scheduler/scheduler.h"
#include "tests/testing/kept_plan.h"

namespace quire {

// A small vocabulary for scheduler tests: sequences are letters, steps are texts.
class SchedulerTest : public testing::Test {
 protected:
  struct Ask {
    std::vector<int32_t> prompt;
    int32_t max_tokens = 8;
    int32_t priority = 0;
    LogitsWanted logits = LogitsWanted::kNone;
    TimeUs deadline = kNever;
    TimeUs time_limit = kNever;
    TimeUs queue_deadline = kNever;
    std::string salt = {};
    int32_t num_choices = 1;
  };

  // Change `config` before the first call of anything else.
  SchedulerTest() {
    config.block_size = 4;
    config.num_blocks = 64;
    config.max_num_seqs = 8;
    config.max_num_batched_tokens = 64;
    config.max_logit_rows = 64;
  }

  Scheduler& scheduler() {
    if (scheduler_ == nullptr) scheduler_ = std::make_unique<Scheduler>(config);
    return *scheduler_;
  }

  static SequenceId Id(char name) { return static_cast<SequenceId>(name - 'a' + 1); }

  // A prompt that shares nothing with another's.
  std::vector<int32_t> Fresh(int32_t length) {
    std::vector<int32_t> tokens(length);
    std::iota(tokens.begin(), tokens.end(), next_token_);
    next_token_ += length;
    return tokens;
  }

  // "" when accepted, else the message.
  std::string Add(char name, const Ask& ask) {
    auto request = std::make_shared<Request>();
    request->prompt_token_ids = ask.prompt;
    request->max_tokens = ask.max_tokens;
    request->priority = ask.priority;
    request->logits = ask.logits;
    request->deadline = ask.deadline;
    request->time_limit = ask.time_limit;
    request->queue_deadline = ask.queue_deadline;
    request->cache_salt = ask.salt;
    request->num_choices = ask.num_choices;
    request->stop_token_ids = {kStopToken};
    const absl::StatusOr<AddResult> added = scheduler().Add(Id(name), request, now);
    scheduler().CheckInvariants();
    if (!added.ok()) return std::string(added.status().message());
    last_added = *added;
    return "";
  }
  std::string Add(char name, int32_t prompt_length, int32_t max_tokens = 8) {
    return Add(name, Ask{.prompt = Fresh(prompt_length), .max_tokens = max_tokens});
  }

  std::string Plan() {
    last_plan = KeptPlan(scheduler().Plan(now));
    scheduler().CheckInvariants();
    if (last_plan.num_tokens > 0) in_flight_.emplace_back(last_plan);
    return last_plan.Describe();
  }

  // Commits the oldest step: what ended, as text. Tokens drawn are 1000 * (choice + 1) + position.
  std::string Commit() {
    const KeptPlan plan = std::move(in_flight_.front());
    in_flight_.pop_front();
    std::vector<SequenceResult> results(plan.sequences.size());
    std::vector<std::vector<int32_t>> drawn(plan.sequences.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const PlannedSequence& planned = plan.sequences[i];
      const int32_t end = planned.first_position + planned.num_tokens;
      for (int32_t choice = 0; choice < planned.num_draws; ++choice) {
        const SequenceId id = planned.id + choice;
        const int32_t token = 1000 * (planned.first_choice + choice + 1) + end;
        drawn[i].push_back(id == stops ? kStopToken : id == draws_nothing ? -1 : token);
      }
      results[i].token_ids = drawn[i];
      results[i].finite = planned.id != breaks;
    }
    last_commit = scheduler().Commit(plan.step_id, results, now);
    scheduler().CheckInvariants();
    return DescribeEnded(last_commit.ended);
  }
  std::string CommitFailed() {
    const KeptPlan plan = std::move(in_flight_.front());
    in_flight_.pop_front();
    last_commit = scheduler().CommitFailed(plan.step_id, now);
    scheduler().CheckInvariants();
    return DescribeEnded(last_commit.ended);
  }
  // Plan and Commit: "a:+4@0 b:+1@7", and after a slash what ended at the commit.
  std::string Step() {
    std::string text = Plan();
    if (last_plan.num_tokens == 0) return text;
    const std::string ended = Commit();
    return ended.empty() ? text : absl::StrCat(text, " / ", ended);
  }
  // Until nothing is left; the number of steps. CHECK-fails after `limit`.
  int RunToEnd(int limit = 10'000) {
    int steps = 0;
    for (; scheduler().HasWork(); ++steps) {
      EXPECT_LT(steps, limit);
      if (steps >= limit) break;
      Step();
    }
    return steps;
  }

  static constexpr int32_t kStopToken = 7;

  SchedulerConfig config;
  TimeUs now = 0;
  SequenceId stops = 0;          // draws the stop token
  SequenceId draws_nothing = 0;  // all its tokens are banned
  SequenceId breaks = 0;         // has a value that is not finite
  AddResult last_added;
  KeptPlan last_plan;
  CommitResult last_commit;

 private:
  std::unique_ptr<Scheduler> scheduler_;
  std::deque<KeptPlan> in_flight_;
  int32_t next_token_ = 100'000;
};

}  // namespace quire

#endif  // QUIRE_TESTS_SCHEDULER_SCHEDULER_FIXTURE_H_
