#include "server/cli/bench/load_generator.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace quire::cli::bench {
namespace {

// Does with a request what the test says; keeps the others in work.
class FakeTarget : public Target {
 public:
  using OnStart = std::function<void(int index, const std::shared_ptr<Listener>& listener)>;

  explicit FakeTarget(OnStart on_start) : on_start_(std::move(on_start)) {}

  const TargetInfo& info() const override { return info_; }
  void Start(const BenchRequest&, std::shared_ptr<Listener> listener) override {
    in_work_.push_back(listener);
    most_in_work_ = std::max(most_in_work_, in_work_.size());
    on_start_(num_started_++, listener);
  }
  void CancelAll() override {
    while (!in_work_.empty()) EndFirst("CANCELLED");
  }

  void EndFirst(const std::string& error) {
    const std::shared_ptr<Listener> first = in_work_.front();
    in_work_.erase(in_work_.begin());
    if (error.empty()) first->OnTokens(2);
    first->OnEnd(error);
  }
  size_t num_in_work() const { return in_work_.size(); }
  size_t most_in_work() const { return most_in_work_; }
  int num_started() const { return num_started_; }

 private:
  const TargetInfo info_;
  const OnStart on_start_;
  std::vector<std::shared_ptr<Listener>> in_work_;
  size_t most_in_work_ = 0;
  int num_started_ = 0;
};

std::vector<BenchRequest> Some(int count) {
  return std::vector<BenchRequest>(count, {.prompt_ids = {1, 2, 3}, .new_tokens = 2});
}

Load Closed(int concurrency) {
  Load load;
  load.concurrency = concurrency;
  load.max_seconds = 60;
  return load;
}

const auto kNoProgress = [](const LoadProgress&) {};

TEST(LoadGenerator, AClosedLoopKeepsSoManyInWorkAndNoMore) {
  std::unique_ptr<FakeTarget> target;
  target = std::make_unique<FakeTarget>([&](int index, const auto&) {
    // As soon as all three are there one ends, and the last ones all do.
    if (target->num_in_work() == 3) target->EndFirst("");
    while (index == 9 && target->num_in_work() > 0) target->EndFirst("");
  });
  LoadGenerator generator(target.get());
  const LoadResult result = generator.Run(Some(10), Closed(3), kNoProgress);
  EXPECT_EQ(target->most_in_work(), 3u);
  ASSERT_EQ(result.records.size(), 10u);
  double last_s = 0;
  for (const RequestRecord& record : result.records) {
    EXPECT_EQ(record.end, RequestRecord::End::kDone);
    EXPECT_EQ(record.prompt_tokens, 3);
    EXPECT_GE(record.due_s, result.begin_s);
    last_s = std::max(last_s, record.end_s);
  }
  EXPECT_EQ(result.end_s, last_s);
}

TEST(LoadGenerator, AnOpenLoopStartsThemWhenTheyAreDueWhateverIsInWork) {
  std::unique_ptr<FakeTarget> target;
  target = std::make_unique<FakeTarget>([&](int index, const auto&) {
    while (index == 4 && target->num_in_work() > 0) target->EndFirst("");
  });
  Load load;
  load.arrivals_s = {0, 0.001, 0.002, 0.003, 0.004};
  load.max_seconds = 60;
  const LoadResult result = LoadGenerator(target.get()).Run(Some(5), load, kNoProgress);
  EXPECT_EQ(target->most_in_work(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_DOUBLE_EQ(result.records[i].due_s, result.begin_s + load.arrivals_s[i]);
    // Not before it was due.
    EXPECT_GE(result.records[i].end_s, result.records[i].due_s);
  }
}

TEST(LoadGenerator, ThatEndsWithAReasonOrAnotherNumberOfTokensHasFailed) {
  std::unique_ptr<FakeTarget> target;
  target = std::make_unique<FakeTarget>([&](int index, const auto& listener) {
    if (index == 1) listener->OnTokens(1);
    target->EndFirst(index == 0 ? "QUEUE_FULL" : "");
  });
  std::vector<BenchRequest> requests = Some(3);
  const LoadResult result = LoadGenerator(target.get()).Run(requests, Closed(1), kNoProgress);
  EXPECT_EQ(result.records[0].end, RequestRecord::End::kFailed);
  EXPECT_EQ(result.records[0].error, "QUEUE_FULL");
  EXPECT_EQ(result.records[1].error, "WRONG_TOKEN_COUNT");
  EXPECT_EQ(result.records[2].end, RequestRecord::End::kDone);
}

TEST(LoadGenerator, AnInterruptCutsOffWhatIsInWorkAndStartsNoMore) {
  std::unique_ptr<FakeTarget> target;
  std::unique_ptr<LoadGenerator> generator;
  target = std::make_unique<FakeTarget>([&](int index, const auto&) {
    if (index == 0) target->EndFirst("");
    if (index == 2) generator->Interrupt();
  });
  generator = std::make_unique<LoadGenerator>(target.get());
  const LoadResult result = generator->Run(Some(100), Closed(2), kNoProgress);
  EXPECT_TRUE(generator->is_interrupted());
  EXPECT_EQ(result.requests, 100);
  ASSERT_EQ(result.records.size(), 3u);
  EXPECT_EQ(result.records[0].end, RequestRecord::End::kDone);
  EXPECT_EQ(result.records[1].end, RequestRecord::End::kCut);
  EXPECT_EQ(result.records[2].end, RequestRecord::End::kCut);
  EXPECT_TRUE(generator->Run(Some(5), Closed(2), kNoProgress).records.empty());
}

TEST(LoadGenerator, TheTimeOfAPointIsBounded) {
  FakeTarget target([](int, const auto&) {});
  Load load = Closed(2);
  load.max_seconds = 0.01;
  const LoadResult result = LoadGenerator(&target).Run(Some(5), load, kNoProgress);
  ASSERT_EQ(result.records.size(), 2u);
  for (const RequestRecord& record : result.records) {
    EXPECT_EQ(record.end, RequestRecord::End::kCut);
  }
  EXPECT_GE(result.end_s, result.begin_s + 0.01);
}

}  // namespace
}  // namespace quire::cli::bench
