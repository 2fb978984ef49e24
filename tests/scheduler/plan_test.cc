// What a step holds: chunks, budgets, limits.
#include "tests/scheduler/scheduler_fixture.h"

namespace quire {
namespace {

using PlanTest = SchedulerTest;

TEST_F(PlanTest, PromptIsComputedInOneStepAndThenOneTokenAtATime) {
  Add('a', 6, 3);
  EXPECT_EQ(Step(), "a:+6@0");
  EXPECT_EQ(last_plan.sequences[0].num_draws, 1);
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
  EXPECT_EQ(last_plan.sequences[0].num_draws, 0);
  EXPECT_EQ(Step(), "a:+16@16");
  EXPECT_EQ(Step(), "a:+8@32");
  EXPECT_EQ(last_plan.sequences[0].num_draws, 1);
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

TEST_F(PlanTest, ChunkIsLimitedByTimeWhileAnythingDecodes) {
  config.target_itl_us = 1000;
  config.us_per_step = 500;
  config.us_per_row = 25;
  Add('a', 4);
  Add('b', 60, 1);
  EXPECT_EQ(Step(), "a:+4@0 b:+60@0 / b=length") << "nobody decodes: the whole budget";
  Add('c', 60, 1);
  EXPECT_EQ(Step(), "a:+1@4 c:+19@0") << "20 rows in the 500 us left";
  EXPECT_EQ(Step(), "a:+1@5 c:+19@19");
}

TEST_F(PlanTest, ChunkShrinksAsTheKeysThatItsRowsSeeGrow) {
  config.num_blocks = 200;
  config.target_itl_us = 1000;
  config.us_per_row = 1;
  config.us_per_attended = 0.5;
  Add('a', 4, 100);
  Step();
  Add('b', 300, 1);
  EXPECT_EQ(Step(), "a:+1@4 b:+60@0");
  EXPECT_EQ(Step(), "a:+1@5 b:+26@60");
  EXPECT_EQ(Step(), "a:+1@6 b:+20@86");
}

TEST_F(PlanTest, PromptsAdvanceByABlockWhereDecodingAloneTakesTooLong) {
  config.target_itl_us = 1000;
  config.us_per_step = 2000;
  config.us_per_row = 25;
  Add('a', 4);
  Step();
  Add('b', 20, 1);
  EXPECT_EQ(Step(), "a:+1@4 b:+4@0");
  EXPECT_EQ(Step(), "a:+1@5 b:+5@4") << "its row set aside, and a block";
}

TEST_F(PlanTest, SlotsAreStableAndReused) {
  config.max_num_seqs = 2;
  Add('a', 4, 3);
  Add('b', 4, 1);
  Add('c', 4, 2);
  EXPECT_EQ(Step(), "a:+4@0 b:+4@0 / b=length");
  EXPECT_EQ(last_plan.sequences[0].seq_slot, 0);
  EXPECT_EQ(Step(), "a:+1@4 c:+4@0");
  EXPECT_EQ(last_plan.sequences[0].seq_slot, 0);
  EXPECT_EQ(last_plan.sequences[1].seq_slot, 1);
}

TEST_F(PlanTest, NamesCountLikeColumns) {
  EXPECT_EQ(SequenceName(1), "a");
  EXPECT_EQ(SequenceName(26), "z");
  EXPECT_EQ(SequenceName(27), "aa");
  EXPECT_EQ(SequenceName(26 * 27 + 1), "aaa");
}

}  // namespace
}  // namespace quire
