// What a step asks of the heap and of the kernel while sequences only decode: nothing.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "tests/testing/event.h"
#include "tests/testing/thread_counts.h"
#include "tests/testing/tiny_engine.h"

namespace quire {
namespace {

constexpr int kMaxTokens = 90;

struct Case {
  const char* name;
  const char* model;
  int num_sequences;
  int num_threads = 1;  // two and more wake each other, as their timing has it
};

// Listener of all sequences; adds up what each step cost in which every one of them got a token and
// none began or ended.
class Meter : public TokenListener {
 public:
  explicit Meter(int num_sequences) : num_left_(num_sequences), num_sequences_(num_sequences) {}

  void OnAccepted(int, int) override {}
  void OnRefused(const absl::Status& status) override { FAIL() << status; }
  void OnToken(const NewToken&, const TokenScores&) override { ++num_tokens_; }
  void OnEnd(const EndedSequence&) override {
    ++num_ends_;
    if (--num_left_ == 0) is_over_ = true;
  }
  // Before a step, and at its end: engine thread.
  void OnHandOver() {
    if (!is_released_) is_released_ = all_submitted_.Wait();
    if (num_tokens_ == 0) return;
    const ThreadCounts now = CountsOfThisThread();
    const bool is_steady = num_tokens_ == num_sequences_ && num_ends_ == 0;
    if (is_steady && num_steady_in_a_row_ >= 2) {
      const ThreadCounts step = now - last_;
      ++num_steps;
      sum.num_allocations += step.num_allocations;
      sum.num_page_faults += step.num_page_faults;
      sum.num_wakes += step.num_wakes;
    }
    num_steady_in_a_row_ = is_steady ? num_steady_in_a_row_ + 1 : 0;
    num_tokens_ = 0;
    num_ends_ = 0;
    if (is_over_) over_.Notify();
    last_ = CountsOfThisThread();
  }
  // All sequences are submitted: until then none of them goes on, so that they decode together.
  void WaitUntilOver() {
    all_submitted_.Notify();
    ASSERT_TRUE(over_.Wait());
  }

  // Read after WaitUntilOver.
  ThreadCounts sum;
  int num_steps = 0;

 private:
  int num_left_;
  const int num_sequences_;
  int num_tokens_ = 0;  // since the last hand-over with tokens
  int num_ends_ = 0;
  int num_steady_in_a_row_ = 0;
  bool is_released_ = false;
  bool is_over_ = false;
  ThreadCounts last_;
  Event all_submitted_;
  Event over_;
};

// Prompts of different lengths, so that blocks are filled in different steps, without a common
// prefix; some with rules and log-probabilities.
std::shared_ptr<Request> RequestOf(int round, int i) {
  auto request = std::make_shared<Request>();
  request->prompt_token_ids.assign(5 + 3 * i, 1 + 8 * round + i);
  request->max_tokens = kMaxTokens;
  request->sampling.seed = 8 * round + i;
  if (i % 4 == 1) request->sampling.presence_penalty = 1;
  if (i % 4 == 2) request->num_logprobs = 3;
  if (i % 4 == 3) request->rules.bad_words = {{9, 8, 7}};
  return request;
}

class SteadyStepTest : public testing::TestWithParam<Case> {};

TEST_P(SteadyStepTest, TakesNothingFromTheHeapFaultsNoPageAndWakesNobody) {
  constexpr int kRounds = 4;
  const Case& param = GetParam();
  std::vector<std::shared_ptr<Meter>> meters;  // outlive the engine
  std::atomic<Meter*> current = nullptr;
  const std::unique_ptr<EngineLoop> engine = MakeTinyEngine(
      *CreateCpuBackend({.num_threads = param.num_threads, .isa = std::nullopt}),
      // The later rounds evict what the first have left.
      {.model = param.model, .num_blocks = 20 * param.num_sequences, .touches_at_once = true});
  engine->SetHandOver([&current] { current.load()->OnHandOver(); });
  int64_t least_page_faults = 1 << 30;
  for (int round = 0; round < kRounds; ++round) {
    const auto meter = std::make_shared<Meter>(param.num_sequences);
    meters.push_back(meter);
    current.store(meter.get());
    for (int i = 0; i < param.num_sequences; ++i) {
      ASSERT_TRUE(engine->Submit(RequestOf(round, i), meter).ok());
    }
    meter->WaitUntilOver();
    // In the first round the code itself is still being read into memory.
    if (round == 0) continue;
    EXPECT_GT(meter->num_steps, kMaxTokens / 2);
    EXPECT_EQ(meter->sum.num_allocations, 0) << "round " << round;
    if (param.num_threads == 1) {
      EXPECT_EQ(meter->sum.num_wakes, 0) << "round " << round;
    }
    least_page_faults = std::min(least_page_faults, meter->sum.num_page_faults);
  }
  if (!CanCountThreads()) GTEST_SKIP() << "not counted: a sanitizer has replaced malloc";
  // A page that the machine took back faults in one round, but not in all.
  EXPECT_EQ(least_page_faults, 0);
}

INSTANTIATE_TEST_SUITE_P(Sequences, SteadyStepTest,
                         testing::Values(Case{"One", "llama_mha", 1}, Case{"Eight", "llama_mha", 8},
                                         Case{"EightOnTwoThreads", "llama_mha", 8, 2},
                                         Case{"EightInWindows", "qwen2_mixed_window", 8}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(ThreadCountsTest, SeesAllocationsWakesAndPageFaults) {
  if (!CanCountThreads()) GTEST_SKIP() << "a sanitizer has replaced malloc";
  constexpr size_t kBytes = size_t{64} << 20;  // fresh from the kernel
  const ThreadCounts before = CountsOfThisThread();
  std::vector<char> memory(kBytes, 1);
  Event event;
  event.Notify();
  const ThreadCounts took = CountsOfThisThread() - before;
  EXPECT_EQ(memory[kBytes - 1], 1);
  EXPECT_EQ(took.num_allocations, 1);
  EXPECT_GT(took.num_page_faults, 0);
  EXPECT_EQ(took.num_wakes, 1);
}

}  // namespace
}  // namespace quire
