// Memory among running sequences.
#include "tests/scheduler/scheduler_fixture.h"

namespace quire {
namespace {

using PreemptionTest = SchedulerTest;

TEST_F(PreemptionTest, YoungestGivesUpItsBlocksAndRecomputesThemAll) {
  config.num_blocks = 4;
  config.prefix_caching = false;
  Add('a', 7, 6);
  Add('b', 7, 2);
  EXPECT_EQ(Step(), "a:+7@0 b:+7@0");
  EXPECT_EQ(Step(), "a:+1@7 b:+1@7 / b=length");
  Add('c', 4, 8);
  EXPECT_EQ(Step(), "a:+1@8 c:+4@0");
  EXPECT_EQ(Step(), "a:+1@9") << "c needs a second block, there is none: c is the youngest";
  EXPECT_EQ(scheduler().Stats().num_preemptions, 1);
  EXPECT_EQ(Step(), "a:+1@10");
  EXPECT_EQ(Step(), "a:+1@11 / a=length");
  EXPECT_EQ(Step(), "c:+5@0") << "prompt and the token it has, which is not drawn again";
  EXPECT_EQ(last_commit.tokens.size(), 1u);
  EXPECT_EQ(last_commit.tokens[0].index, 1);
}

TEST_F(PreemptionTest, PreemptedSequenceFindsItsPrefixInTheCache) {
  config.num_blocks = 6;
  Add('a', 7, 9);
  EXPECT_EQ(Step(), "a:+7@0");
  Add('b', 8, 8);
  EXPECT_EQ(Step(), "a:+1@7 b:+8@0");
  while (scheduler().Stats().num_preemptions == 0) Step();
  EXPECT_EQ(last_plan.Describe(), "a:+1@12") << "the last free block is a's";
  do Step();
  while (last_plan.sequences.front().id != Id('b'));
  EXPECT_EQ(last_plan.Describe(), "b:+5@8") << "nothing of its prompt is computed again";
  RunToEnd();
}

TEST_F(PreemptionTest, VictimIsTheLowestPriorityNotTheYoungest) {
  config.num_blocks = 4;
  config.prefix_caching = false;
  Add('a', Ask{.prompt = Fresh(7), .max_tokens = 4, .priority = -1});
  Add('b', Ask{.prompt = Fresh(7), .max_tokens = 4});
  EXPECT_EQ(Step(), "b:+7@0 a:+7@0");
  EXPECT_EQ(Step(), "b:+1@7 a:+1@7");
  EXPECT_EQ(Step(), "b:+1@8") << "a is older, but less important";
}

TEST_F(PreemptionTest, AfterMaxPreemptionsAllItsBlocksAreReserved) {
  config.num_blocks = 6;
  config.max_preemptions = 1;
  config.prefix_caching = false;
  Add('a', 8, 9);  // 4 blocks in the end
  Add('b', 8, 9);
  EXPECT_EQ(Step(), "a:+8@0 b:+8@0");
  while (scheduler().Stats().num_preemptions == 0) Step();
  Add('c', Ask{.prompt = Fresh(8), .max_tokens = 9, .priority = 1});
  RunToEnd();
  EXPECT_LE(scheduler().Stats().num_preemptions, 3) << "each of them once, at most";
}

TEST_F(PreemptionTest, ChunkIsCutBeforeAnybodyIsPreempted) {
  config.num_blocks = 8;
  config.max_num_batched_tokens = 16;
  config.prefix_caching = false;
  Add('a', 28, 1);
  EXPECT_EQ(Step(), "a:+16@0");
  Add('b', 4, 9);
  EXPECT_EQ(Step(), "a:+12@16 b:+4@0 / a=length");
  EXPECT_EQ(scheduler().Stats().num_preemptions, 0);
}

TEST_F(PreemptionTest, WatermarkRisesWithPreemptionsAndKeepsRoomToGrow) {
  Watermark watermark(320);
  EXPECT_EQ(watermark.blocks(), 3);
  watermark.OnStep(/*preempted=*/true);
  EXPECT_EQ(watermark.blocks(), 13);
  for (int i = 0; i < 100; ++i) watermark.OnStep(true);
  EXPECT_EQ(watermark.blocks(), 160);
  for (int i = 0; i < 64 * 100; ++i) watermark.OnStep(false);
  EXPECT_EQ(watermark.blocks(), 3);
}

TEST_F(PreemptionTest, PreemptedWhileAStepIsInFlightKeepsItsTokenAndWaitsForTheFence) {
  config.num_blocks = 4;
  config.max_steps_in_flight = 3;
  config.prefix_caching = false;
  Add('a', 7, 6);
  Add('b', 7, 6);
  EXPECT_EQ(Plan(), "a:+7@0 b:+7@0");
  EXPECT_EQ(Plan(), "a:+1@7 b:+1@7");
  EXPECT_EQ(Plan(), "") << "b is preempted for a, but its blocks are still named";
  EXPECT_EQ(scheduler().Stats().num_preemptions, 1);
  EXPECT_EQ(Commit(), "");
  EXPECT_EQ(last_commit.tokens.size(), 2u) << "b's token counts";
  EXPECT_EQ(Plan(), "") << "b stays out while a step that names it is in flight";
  EXPECT_EQ(Commit(), "");
  EXPECT_EQ(last_commit.tokens.size(), 2u);
  EXPECT_EQ(Plan(), "a:+1@8");
  while (scheduler().Stats().num_waiting > 0) Commit(), Plan();
  EXPECT_EQ(last_plan.Describe(), "b:+9@0");
  Commit();
  RunToEnd();
}

TEST_F(PreemptionTest, WindowBlocksAreGivenBackAndReused) {
  config.group_windows = {8};
  config.num_blocks = 5;  // what the rows of 9 tokens see, at most
  config.max_num_batched_tokens = 9;
  config.max_num_seqs = 1;
  config.prefix_caching = false;
  EXPECT_EQ(Add('a', 2, 400), "");
  RunToEnd();
  EXPECT_EQ(scheduler().Stats().num_kv_rows, 2 + 400 - 1);
  EXPECT_EQ(scheduler().Stats().num_preemptions, 0);
  EXPECT_EQ(scheduler().Stats().blocks_held, 0);
}

TEST_F(PreemptionTest, BlockOnItsWayIsPromisedOnce) {
  config.num_blocks = 5;
  config.max_steps_in_flight = 2;
  config.prefix_caching = false;
  Add('a', 7);
  Add('b', 7);
  Add('c', 3);
  EXPECT_EQ(Plan(), "a:+7@0 b:+7@0 c:+3@0");
  EXPECT_EQ(Plan(), "a:+1@7 b:+1@7 c:+1@3");
  scheduler().End(Id('c'), EndReason::kAborted);
  EXPECT_EQ(Commit(), "c=aborted");
  EXPECT_EQ(Plan(), "") << "a waits for the block that c had; for b there is none";
  EXPECT_EQ(scheduler().Stats().num_preemptions, 1);
  Commit();
  EXPECT_EQ(Plan(), "a:+1@8");
}

TEST_F(PreemptionTest, SharedWindowBlocksAreReservedForEachWhoSharesThem) {
  config.group_windows = {8};
  config.admission = AdmissionMode::kReserve;
  config.num_blocks = 12;
  config.max_num_batched_tokens = 9;  // so 5 blocks at once, at most
  const std::vector<int32_t> shared = Fresh(8);
  Add('a', Ask{.prompt = shared, .max_tokens = 20});
  EXPECT_EQ(Step(), "a:+8@0");
  Add('b', Ask{.prompt = shared, .max_tokens = 20});
  EXPECT_EQ(Step(), "a:+1@8 b:+1@7(cached)");
  Add('c', 4, 12);  // 4 blocks
  EXPECT_EQ(Step(), "a:+1@9 b:+1@8") << "what a and b share comes back once, both need its room";
  RunToEnd();
}

}  // namespace
}  // namespace quire
