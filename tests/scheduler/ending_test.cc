// How sequences end, in every state and with steps in flight; logits; time.
#include "gmock/gmock.h"

#include "tests/scheduler/scheduler_fixture.h"

namespace quire {
namespace {

using EndingTest = SchedulerTest;

TEST_F(EndingTest, StopTokenEndsWithTheTokenDelivered) {
  Add('a', 4, 8);
  Step();
  stops = Id('a');
  EXPECT_EQ(Step(), "a:+1@4 / a=stop");
  EXPECT_EQ(last_commit.ended[0].stop_token_id, kStopToken);
  EXPECT_EQ(last_commit.ended[0].completion_tokens, 2);
  EXPECT_EQ(last_commit.tokens.size(), 1u);
}

TEST_F(EndingTest, NoTokensAskedEndsWithThePrompt) {
  config.max_num_batched_tokens = 9;
  Add('a', Ask{.prompt = Fresh(12), .max_tokens = 0, .logits = LogitsWanted::kPromptAndGenerated});
  EXPECT_EQ(Step(), "a:+9@0");
  EXPECT_EQ(Step(), "a:+3@9 / a=length");
  EXPECT_EQ(last_plan.sequences[0].num_draws, 0);
  EXPECT_EQ(last_plan.sequences[0].wants_prompt_rows, true);
  EXPECT_TRUE(last_commit.tokens.empty());
}

TEST_F(EndingTest, PromptLogitsChunksAreBoundedByLogitRows) {
  config.max_logit_rows = 10;
  Add('a', 4, 8);
  Step();
  Add('b', Ask{.prompt = Fresh(16), .max_tokens = 1, .logits = LogitsWanted::kPromptAndGenerated});
  EXPECT_EQ(Step(), "a:+1@4 b:+9@0");
  EXPECT_EQ(Step(), "a:+1@5 b:+7@9 / b=length");
}

TEST_F(EndingTest, PromptRowsAreWantedOnceAlsoAfterAPreemption) {
  config.num_blocks = 6;
  config.prefix_caching = false;
  config.max_num_batched_tokens = 20;
  Add('a', 4, 16);
  Step();
  Add('b', Ask{.prompt = Fresh(16), .max_tokens = 4, .logits = LogitsWanted::kPromptAndGenerated});
  EXPECT_EQ(Step(), "a:+1@4 b:+16@0");
  while (scheduler().Stats().num_preemptions == 0) Step();
  while (last_plan.sequences.empty() || last_plan.sequences.back().id != Id('b')) Step();
  EXPECT_EQ(last_plan.sequences.back().first_position, 0);
  EXPECT_EQ(last_plan.sequences.back().wants_prompt_rows, false);
  RunToEnd();
}

TEST_F(EndingTest, CancelledInTheQueueItNeverRuns) {
  Add('a', 4);
  scheduler().End(Id('a'), EndReason::kCancelled);
  EXPECT_EQ(Plan(), "a=cancelled");
  EXPECT_EQ(last_plan.ended[0].first_scheduled_at, kNever);
  EXPECT_FALSE(scheduler().HasWork());
}

TEST_F(EndingTest, CancelledInFlightItsResultsAreDroppedAndItsBlocksFenced) {
  config.num_blocks = 2;
  config.max_steps_in_flight = 2;
  config.prefix_caching = false;
  Add('a', 8, 1);
  EXPECT_EQ(Plan(), "a:+8@0");
  scheduler().End(Id('a'), EndReason::kAborted);
  Add('b', 8, 1);
  EXPECT_EQ(Plan(), "a=aborted") << "b has to wait: the step in flight names the blocks";
  EXPECT_EQ(Commit(), "");
  EXPECT_TRUE(last_commit.tokens.empty());
  EXPECT_EQ(Step(), "b:+8@0 / b=length");
}

TEST_F(EndingTest, EndBetweenPlanAndCommitDropsTheToken) {
  Add('a', 4);
  Plan();
  scheduler().End(Id('a'), EndReason::kStop);
  EXPECT_EQ(Commit(), "a=stop");
  EXPECT_TRUE(last_commit.tokens.empty());
  EXPECT_EQ(scheduler().Stats().blocks_held, 0);
}

TEST_F(EndingTest, UnknownAndEndedIdsAreIgnored) {
  Add('a', 4, 1);
  scheduler().End(Id('z'), EndReason::kAborted);
  EXPECT_EQ(Step(), "a:+4@0 / a=length");
  scheduler().End(Id('a'), EndReason::kAborted);
  EXPECT_EQ(Plan(), "");
}

TEST_F(EndingTest, TimesAreEventsWithANow) {
  config.max_num_seqs = 3;
  Add('a', Ask{.prompt = Fresh(4), .deadline = 100});
  Add('b', Ask{.prompt = Fresh(4), .time_limit = 50});
  Add('c', Ask{.prompt = Fresh(4), .queue_deadline = 20});
  Add('d', Ask{.prompt = Fresh(4), .queue_deadline = 20});
  EXPECT_EQ(Step(), "a:+4@0 b:+4@0 c:+4@0");
  now = 20;
  EXPECT_EQ(Step(), "a:+1@4 b:+1@4 c:+1@4 d=queue_timeout") << "c has left the queue in time";
  Plan();
  now = 50;
  EXPECT_EQ(Commit(), "b=time_limit");
  EXPECT_EQ(last_commit.tokens.size(), 3u) << "what the step brought is still told";
  now = 100;
  EXPECT_EQ(Step(), "c:+1@6 a=deadline");
}

TEST_F(EndingTest, FailedStepEndsItsSequencesAndNoOthers) {
  config.max_steps_in_flight = 2;
  Add('a', 4);
  EXPECT_EQ(Plan(), "a:+4@0");
  Add('b', 4, 1);
  EXPECT_EQ(Plan(), "a:+1@4 b:+4@0");
  EXPECT_EQ(CommitFailed(), "a=engine_failed");
  EXPECT_EQ(Commit(), "b=length");
  EXPECT_EQ(last_commit.tokens.size(), 1u) << "a's row of the second step is discarded";
  EXPECT_EQ(scheduler().Stats().blocks_held, 0);
}

TEST_F(EndingTest, TokenThatIsNotCommittedIsNamedByItsSlot) {
  config.max_steps_in_flight = 2;
  Add('a', 4, 3);
  Add('b', 4, 2);
  EXPECT_EQ(Plan(), "a:+4@0 b:+4@0");
  EXPECT_EQ(Plan(), "a:+1@4 b:+1@4");
  EXPECT_THAT(last_plan.sequences[1].token_ids, testing::ElementsAre(-1 - 1));
  Commit();
  EXPECT_EQ(Plan(), "a:+1@5") << "b's last token is being drawn: nothing is left to plan";
  EXPECT_EQ(Commit(), "b=length");
  EXPECT_EQ(Commit(), "a=length");
}

TEST_F(EndingTest, StopFoundWithAStepAheadDropsTheStepAhead) {
  config.max_steps_in_flight = 2;
  Add('a', 4);
  Plan();
  EXPECT_EQ(Plan(), "a:+1@4");
  stops = Id('a');
  EXPECT_EQ(Commit(), "a=stop");
  EXPECT_EQ(Plan(), "");
  EXPECT_TRUE(scheduler().HasWork()) << "a step is in flight";
  EXPECT_EQ(Commit(), "");
  EXPECT_FALSE(scheduler().HasWork());
}

}  // namespace
}  // namespace quire
