// One scenario, run again and again: first its first step fails, then its second, and so on until
// no step is left; the same with each result that is not finite, and with a cancellation before
// each call. What SchedulerWorld checks must hold in every run: those that are not hit get their
// tokens, all end once, all memory comes back.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/sim/acts.h"
#include "tests/sim/scheduler_world.h"

namespace quire {
namespace {

// What goes wrong in a run, at the n-th place for it, from 0; and for how many in a row.
struct Failure {
  enum class At { kNowhere, kStep, kResult, kCall } at = At::kNowhere;
  int32_t n = 0;
  int32_t count = 1;
  Fault fault = Fault::kNone;   // of a step or a result
  SequenceId cancelled_id = 0;  // before a call

  bool Hits(At place, int32_t i) const { return at == place && i >= n && i < n + count; }
};

struct Outcome {
  std::string violation;
  bool is_reached = false;  // the failure
  int32_t num_complete = 0;
  int64_t num_preemptions = 0;
  int64_t num_hit_tokens = 0;
  int64_t num_copies = 0;
};

std::shared_ptr<Request> MakeRequest(int32_t num_prompt, int32_t tail, int32_t max_tokens) {
  auto request = std::make_shared<Request>();
  for (int32_t i = 0; i < num_prompt; ++i) request->prompt_token_ids.push_back(i % 3);
  request->prompt_token_ids.push_back(tail);
  request->max_tokens = max_tokens;
  return request;
}

// Requests that share beginnings, one of three choices, one that wants every prompt row, an urgent
// one; [when][...]: before which turn they come.
constexpr SequenceId kNumChoices = 9;
std::vector<std::shared_ptr<Request>> RequestsBefore(int32_t turn) {
  std::vector<std::shared_ptr<Request>> requests;
  if (turn == 0) {
    requests = {MakeRequest(4, 2, 8), MakeRequest(6, 0, 12)};
    requests[0]->num_choices = 3;
  } else if (turn == 3) {
    requests = {MakeRequest(6, 1, 9), MakeRequest(6, 0, 14), MakeRequest(7, 3, 6)};
    requests[2]->logits = LogitsWanted::kPromptAndGenerated;
  } else if (turn == 6) {
    requests = {MakeRequest(5, 4, 10), MakeRequest(6, 1, 0)};
    requests[0]->priority = 1;
  }
  return requests;
}

// Counts the places, and lets the failure happen at its own.
class Scenario {
 public:
  Scenario(const SchedulerConfig& config, const Failure& failure)
      : failure_(failure), world_(config) {}

  Outcome Play() {
    Outcome outcome;
    outcome.violation = ViolationIn([this] {
      for (int32_t turn = 0; turn < 8 || world_.HasWork(); ++turn) {
        SIM_REQUIRE(turn < 10'000, "it never ends");
        for (const auto& request : RequestsBefore(turn)) {
          SIM_REQUIRE(world_.AddRequest(request), "the scenario is accepted");
        }
        BeforeCall();
        world_.PlanStep();
        world_.Check();
        if (turn % 3 == 0 && world_.num_in_flight() < 2) continue;  // run ahead, where that may be
        BeforeCall();
        CommitStep();
        world_.Check();
      }
      world_.Finish();
    });
    outcome.is_reached = is_reached_;
    outcome.num_complete = world_.num_complete() - 1;  // but for that of Finish
    outcome.num_preemptions = world_.num_preemptions();
    outcome.num_hit_tokens = world_.num_hit_tokens();
    outcome.num_copies = world_.num_copies();
    return outcome;
  }

 private:
  bool Hits(Failure::At place, int32_t i) {
    const bool hits = failure_.Hits(place, i);
    is_reached_ |= hits;
    return hits;
  }
  void BeforeCall() {
    if (Hits(Failure::At::kCall, num_calls_++)) {
      world_.EndOne(failure_.cancelled_id, EndReason::kCancelled);
    }
  }
  void CommitStep() {
    if (world_.num_in_flight() == 0) return;
    Fault fault = Fault::kNone;
    int32_t which = 0;
    if (Hits(Failure::At::kStep, num_steps_++)) fault = failure_.fault;
    for (int32_t i = 0; i < world_.num_results(); ++i) {
      if (!Hits(Failure::At::kResult, num_results_++)) continue;
      fault = failure_.fault;
      which = i;
    }
    world_.CommitStep(fault, which);
  }

  const Failure failure_;
  SchedulerWorld world_;
  bool is_reached_ = false;
  int32_t num_calls_ = 0;
  int32_t num_steps_ = 0;
  int32_t num_results_ = 0;
};

// Small pools: full attention at both depths, a window beside it, no cache, all set aside.
std::vector<SchedulerConfig> Configs() {
  SchedulerConfig config;
  config.block_size = 2;
  config.num_blocks = 14;
  config.max_num_seqs = 4;
  config.max_num_batched_tokens = 10;
  config.max_logit_rows = 5;
  config.max_queued_requests = 20;
  std::vector<SchedulerConfig> configs(5, config);
  configs[1].max_steps_in_flight = 2;
  configs[2].max_steps_in_flight = 2;
  configs[2].group_windows = {0, 5};
  configs[2].num_blocks = 28;
  configs[3].max_steps_in_flight = 2;
  configs[3].prefix_caching = false;
  configs[4].admission = AdmissionMode::kReserve;
  return configs;
}

// Runs with the failure at the first place, the second, ... until it is not reached.
int32_t FailAtEach(const SchedulerConfig& config, Failure failure) {
  for (failure.n = 0;; ++failure.n) {
    const Outcome outcome = Scenario(config, failure).Play();
    EXPECT_EQ(outcome.violation, "") << "failure at " << failure.n;
    if (!outcome.is_reached || testing::Test::HasFailure()) return failure.n;
  }
}

void FailAtEachOfAll(const Failure& failure) {
  const std::vector<SchedulerConfig> configs = Configs();
  for (size_t i = 0; i < configs.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("config ", i));
    const int32_t num_places = FailAtEach(configs[i], failure);
    EXPECT_GT(num_places, 20);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(FailNthTest, ScenarioWithoutAFailureHasAllThatCanGoWrong) {
  const std::vector<SchedulerConfig> configs = Configs();
  for (size_t i = 0; i < configs.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("config ", i));
    const Outcome outcome = Scenario(configs[i], Failure()).Play();
    EXPECT_EQ(outcome.violation, "");
    EXPECT_EQ(outcome.num_complete, static_cast<int32_t>(kNumChoices));
    EXPECT_EQ(outcome.num_preemptions > 0, configs[i].admission == AdmissionMode::kOptimistic);
    EXPECT_EQ(outcome.num_hit_tokens > 0, configs[i].prefix_caching);
    if (configs[i].group_windows.size() == 1) {
      EXPECT_GT(outcome.num_copies, 0);
    }
  }
}

TEST(FailNthTest, AnyStepMayBeLost) {
  FailAtEachOfAll({.at = Failure::At::kStep, .fault = Fault::kStepLost});
}

TEST(FailNthTest, AnyTwoStepsInARowMayBeLost) {
  FailAtEachOfAll({.at = Failure::At::kStep, .count = 2, .fault = Fault::kStepLost});
}

TEST(FailNthTest, AnyResultMayBeNotFinite) {
  FailAtEachOfAll({.at = Failure::At::kResult, .fault = Fault::kNotFinite});
}

TEST(FailNthTest, AnyDrawMayFindNoTokenAllowed) {
  FailAtEachOfAll({.at = Failure::At::kResult, .fault = Fault::kNoToken});
}

TEST(FailNthTest, AnySequenceMayBeCancelledBeforeAnyCall) {
  for (SequenceId id = 1; id <= kNumChoices; ++id) {
    SCOPED_TRACE(absl::StrCat("sequence ", id));
    FailAtEachOfAll({.at = Failure::At::kCall, .cancelled_id = id});
  }
}

}  // namespace
}  // namespace quire
