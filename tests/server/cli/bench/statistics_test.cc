#include "server/cli/bench/statistics.h"

#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::cli::bench {
namespace {

using testing::ElementsAre;
using testing::Pair;

// A request due at `due_s` whose tokens come one by one.
RequestRecord Done(double due_s, const std::vector<double>& at_s) {
  RequestRecord record;
  record.prompt_tokens = 10;
  record.new_tokens = static_cast<int32_t>(at_s.size());
  record.due_s = due_s;
  for (const double at : at_s) record.deliveries.push_back({at, 1});
  record.end_s = at_s.back();
  record.end = RequestRecord::End::kDone;
  return record;
}

LoadResult LoadOf(double seconds, std::vector<RequestRecord> records) {
  LoadResult load;
  load.begin_s = 100;
  load.end_s = 100 + seconds;
  load.requests = static_cast<int64_t>(records.size());
  load.records = std::move(records);
  return load;
}

TEST(Statistics, PercentilesOfTheFirstHundredNumbersAreNumpys) {
  std::vector<double> values(100);
  std::iota(values.rbegin(), values.rend(), 1);
  const Distribution summary = Summarize(values);
  EXPECT_EQ(summary.count, 100);
  EXPECT_DOUBLE_EQ(summary.mean, 50.5);
  EXPECT_DOUBLE_EQ(summary.p50, 50.5);
  EXPECT_DOUBLE_EQ(summary.p90, 90.1);
  EXPECT_DOUBLE_EQ(summary.p95, 95.05);
  EXPECT_DOUBLE_EQ(summary.p99, 99.01);
}

TEST(Statistics, OneValueIsAllOfItsPercentilesAndNoneIsNoDistribution) {
  const Distribution one = Summarize({7});
  for (const double value : {one.mean, one.p50, one.p90, one.p95, one.p99}) EXPECT_EQ(value, 7);
  EXPECT_EQ(Summarize({}).count, 0);
}

TEST(Statistics, TimesOfARequestFollowFromWhenItWasDueAndItsTokensCame) {
  // Due at 100, tokens at 100.5, 100.6, 100.8, 101.1: gaps of 100, 200 and 300 ms.
  const PointResult point = Evaluate(LoadOf(2, {Done(100, {100.5, 100.6, 100.8, 101.1})}), {});
  EXPECT_NEAR(point.ttft_ms.mean, 500, 1e-6);
  EXPECT_NEAR(point.tpot_ms.mean, 200, 1e-6);
  EXPECT_EQ(point.itl_ms.count, 3);
  EXPECT_NEAR(point.itl_ms.p50, 200, 1e-6);
  EXPECT_NEAR(point.total_ms.mean, 1100, 1e-6);
  EXPECT_EQ(point.prompt_tokens, 10);
  EXPECT_EQ(point.generated_tokens, 4);
  EXPECT_DOUBLE_EQ(point.generated_tokens_per_s, 2);
  EXPECT_DOUBLE_EQ(point.prompt_tokens_per_s, 5);
  EXPECT_DOUBLE_EQ(point.requests_per_s, 0.5);
  EXPECT_FALSE(point.goodput_per_s.has_value());
}

TEST(Statistics, TokensThatComeTogetherAreOneGapButCountForTpot) {
  RequestRecord record = Done(100, {100.5, 100.7});
  record.deliveries[1].count = 4;
  record.new_tokens = 5;
  const PointResult point = Evaluate(LoadOf(1, {record}), {});
  EXPECT_EQ(point.generated_tokens, 5);
  EXPECT_EQ(point.itl_ms.count, 1);
  EXPECT_NEAR(point.itl_ms.mean, 200, 1e-6);
  EXPECT_NEAR(point.tpot_ms.mean, 50, 1e-6);
}

TEST(Statistics, ASingleTokenHasNoTpot) {
  const PointResult point = Evaluate(LoadOf(1, {Done(100, {100.5})}), {});
  EXPECT_EQ(point.ttft_ms.count, 1);
  EXPECT_EQ(point.tpot_ms.count, 0);
  EXPECT_EQ(point.itl_ms.count, 0);
}

TEST(Statistics, GoodputCountsRequestsThatMetBothWishes) {
  const std::vector<RequestRecord> records = {
      Done(100, {100.1, 100.2}),  // TTFT 100 ms, TPOT 100 ms
      Done(100, {100.4, 100.5}),  // late
      Done(100, {100.1, 100.9}),  // slow
      Done(100, {100.2}),         // no TPOT to be slow
  };
  EXPECT_EQ(Evaluate(LoadOf(2, records), {.ttft_ms = 250, .tpot_ms = 150}).goodput_per_s, 1);
  EXPECT_EQ(Evaluate(LoadOf(2, records), {.ttft_ms = 250, .tpot_ms = 0}).goodput_per_s, 1.5);
  EXPECT_EQ(Evaluate(LoadOf(2, records), {.ttft_ms = 0, .tpot_ms = 150}).goodput_per_s, 1.5);
}

TEST(Statistics, FailuresAreCountedByReasonAndGiveNoTimes) {
  RequestRecord refused = Done(100, {100.1});
  refused.deliveries.clear();
  refused.end = RequestRecord::End::kFailed;
  refused.error = "QUEUE_FULL";
  RequestRecord cut = Done(100, {100.1, 100.2});
  cut.end = RequestRecord::End::kCut;
  LoadResult load = LoadOf(1, {refused, cut, refused, Done(100, {100.3})});
  load.requests = 6;  // two were never sent
  const PointResult point = Evaluate(load, {.ttft_ms = 1000, .tpot_ms = 0});
  EXPECT_EQ(point.requests, 6);
  EXPECT_EQ(point.completed, 1);
  EXPECT_EQ(point.failed, 2);
  EXPECT_EQ(point.unfinished, 3);
  EXPECT_THAT(point.errors, ElementsAre(Pair("QUEUE_FULL", 2)));
  EXPECT_EQ(point.ttft_ms.count, 1);
  EXPECT_EQ(point.goodput_per_s, 1);
  EXPECT_EQ(point.generated_tokens, 3);  // all that came
  EXPECT_EQ(point.prompt_tokens, 20);    // of requests that got one
}

}  // namespace
}  // namespace quire::cli::bench
