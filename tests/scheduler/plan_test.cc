// What a step holds: chunks, budgets, limits.
#include "tests/scheduler/scheduler_fixture.h"

namespace quire {
namespace {

using PlanTest = SchedulerTest;

TEST_F(PlanTest, PromptIsComputedInOneStepAndThenOneTokenAtATime) {
  Add('a', 6, 3);
  EXPECT_EQ(Step(), "a:+6@0");
  EXPECT_EQ(last_plan.sequences[0].samples, true);
  EXPECT_EQ(Step(), "a:+1@6");
  EXPECT_EQ(Step(), "a:+1@7 / a=length");
  EXPECT_EQ(Step(), "");
  EXPECT_FALSE(scheduler().HasWork());
  EXPECT_EQ(scheduler().Stats().num_kv_rows, 6 + 3 - 1);
  EXPECT_EQ(scheduler().Stats().blocks_held, 0);
}

TEST_F(PlanTest, LongPromptIsChunkedByTheTokenBudget) {
  config.max_num_batched_tokens = 16;
  Add('a', 40, 2);
  EXPECT_EQ(Step(), "a:+16@0");
  EXPECT_EQ(last_plan.sequences[0].samples, false);
  EXPECT_EQ(Step(), "a:+16@16");
  EXPECT_EQ(Step(), "a:+8@32");
  EXPECT_EQ(last_plan.sequences[0].samples, true);
  EXPECT_EQ(Step(), "a:+1@40 / a=length");
}

TEST_F(PlanTest, ChunksAndDecodesShareAStep) {
  config.max_num_batched_tokens = 16;
  Add('a', 4);
  EXPECT_EQ(Step(), "a:+4@0");
  Add('b', 20);
  EXPECT_EQ(Step(), "a:+1@4 b:+15@0");
  EXPECT_EQ(Step(), "a:+1@5 b:+5@15");
  EXPECT_EQ(Step(), "a:+1@6 b:+1@20");
}

TEST_F(PlanTest, EveryRunningSequenceGetsARowBesideALargeChunk) {
  config.max_num_batched_tokens = 16;
  Add('a', 8);
  Add('b', 4);
  EXPECT_EQ(Step(), "a:+8@0 b:+4@0");
  Add('c', Ask{.prompt = Fresh(60), .priority = 5});
  EXPECT_EQ(Step(), "a:+1@8 b:+1@4 c:+14@0");
  EXPECT_EQ(Step(), "c:+14@14 a:+1@9 b:+1@5");
}

}  // namespace
}  // namespace quire
