// Shared prefixes: hits, waiting for one that is being computed, publishing.
#include "tests/scheduler/scheduler_fixture.h"

namespace quire {
namespace {

using PrefixTest = SchedulerTest;

std::vector<int32_t> operator+(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(PrefixTest, SecondRequestComputesOnlyWhatIsNew) {
  const std::vector<int32_t> shared = Fresh(8);
  Add('a', Ask{.prompt = shared + Fresh(2), .max_tokens = 1});
  EXPECT_EQ(Step(), "a:+10@0 / a=length");
  Add('b', Ask{.prompt = shared + Fresh(3), .max_tokens = 1});
  EXPECT_EQ(last_added.cached_tokens, 8);
  EXPECT_EQ(Step(), "b:+3@8 / b=length");
  EXPECT_EQ(last_commit.ended[0].cached_tokens, 8);
  EXPECT_EQ(scheduler().Stats().prefix_hit_tokens, 8);
}

TEST_F(PrefixTest, FullHitComputesTheLastRowWithoutWriting) {
  const std::vector<int32_t> prompt = Fresh(8);
  Add('a', Ask{.prompt = prompt, .max_tokens = 1});
  Step();
  Add('b', Ask{.prompt = prompt, .max_tokens = 2});
  EXPECT_EQ(Step(), "b:+1@7(cached)");
  EXPECT_EQ(last_plan.sequences[0].num_draws, 1);
  EXPECT_EQ(last_plan.sequences[0].block_tables[0].size(), 2u);
  EXPECT_EQ(Step(), "b:+1@8 / b=length") << "the next token goes to a block of its own";
  EXPECT_EQ(last_commit.ended[0].cached_tokens, 8);
}

TEST_F(PrefixTest, PartOfABlockIsCopiedNotRecomputed) {
  const std::vector<int32_t> shared = Fresh(6);
  Add('a', Ask{.prompt = shared + Fresh(4), .max_tokens = 1});
  Step();
  const int32_t source = last_plan.sequences[0].block_tables[0][1];
  Add('b', Ask{.prompt = shared + Fresh(4), .max_tokens = 1});
  Plan();
  ASSERT_EQ(last_plan.copies.size(), 1u);
  EXPECT_EQ(last_plan.copies[0].source, source);
  EXPECT_EQ(last_plan.copies[0].target, last_plan.sequences[0].block_tables[0][1]);
  EXPECT_EQ(last_plan.sequences[0].first_position, 6);
  Commit();
  EXPECT_EQ(last_commit.ended[0].cached_tokens, 6);
}

TEST_F(PrefixTest, ManyAskForAPrefixAndOneComputesIt) {
  config.max_num_seqs = 64;
  config.max_num_batched_tokens = 512;
  config.num_blocks = 2048;
  config.block_size = 16;
  const std::vector<int32_t> shared = Fresh(4096);
  for (SequenceId i = 0; i < 64; ++i) {
    auto request = std::make_shared<Request>();
    request->prompt_token_ids = shared + Fresh(32);
    request->max_tokens = 1;
    ASSERT_TRUE(scheduler().Add(i + 1, request, now).ok());
  }
  RunToEnd();
  EXPECT_EQ(scheduler().Stats().num_kv_rows, 4096 + 64 * 32);
}

TEST_F(PrefixTest, FollowerWaitsWithoutHoldingAnythingAndStartsWhenItsPartIsThere) {
  config.max_num_batched_tokens = 12;
  const std::vector<int32_t> shared = Fresh(8);
  Add('a', Ask{.prompt = shared + Fresh(24), .max_tokens = 1});
  Add('b', Ask{.prompt = shared + Fresh(2), .max_tokens = 1});
  Add('c', 4, 1);
  EXPECT_EQ(Step(), "a:+12@0");
  EXPECT_EQ(scheduler().Stats().num_running, 1);
  EXPECT_EQ(Step(), "a:+12@12") << "a comes first, b has what it shares but no row is left";
  EXPECT_EQ(Step(), "a:+8@24 b:+2@8 c:+2@0 / a=length b=length");
}

TEST_F(PrefixTest, OthersPassAWaiterFreely) {
  config.max_num_batched_tokens = 16;
  config.max_overtakes = 0;
  const std::vector<int32_t> shared = Fresh(12);
  Add('a', Ask{.prompt = shared});
  Add('b', Ask{.prompt = shared});
  Add('c', 4);
  EXPECT_EQ(Step(), "a:+12@0 c:+4@0");
  EXPECT_EQ(Step(), "a:+1@12 c:+1@4 b:+1@11(cached)");
}

TEST_F(PrefixTest, OwnerThatEndsHandsThePrefixToTheFirstWaiter) {
  config.max_num_batched_tokens = 9;
  const std::vector<int32_t> shared = Fresh(16);
  for (const char name : {'a', 'b', 'c'}) {
    Add(name, Ask{.prompt = shared + Fresh(1), .max_tokens = 1});
  }
  EXPECT_EQ(Step(), "a:+9@0");
  scheduler().End(Id('a'), EndReason::kCancelled);
  EXPECT_EQ(Step(), "b:+9@8 a=cancelled / b=length") << "two blocks were VALID already";
  EXPECT_EQ(Step(), "c:+1@16 / c=length");
}

TEST_F(PrefixTest, NothingIsSharedWithinTheStepThatComputesIt) {
  config.max_steps_in_flight = 2;
  const std::vector<int32_t> shared = Fresh(8);
  Add('a', Ask{.prompt = shared + Fresh(1), .max_tokens = 1});
  Add('b', Ask{.prompt = shared + Fresh(1), .max_tokens = 1});
  EXPECT_EQ(Plan(), "a:+9@0");
  EXPECT_EQ(Plan(), "") << "computed, but not committed";
  Commit();
  EXPECT_EQ(Plan(), "b:+1@8");
}

TEST_F(PrefixTest, OwnerRunsAtThePriorityOfItsWaiters) {
  config.max_num_batched_tokens = 9;
  const std::vector<int32_t> shared = Fresh(24);
  Add('b', 4);
  EXPECT_EQ(Step(), "b:+4@0");
  Add('a', Ask{.prompt = shared, .max_tokens = 1, .priority = -1});
  EXPECT_EQ(Step(), "b:+1@4 a:+8@0");
  Add('c', Ask{.prompt = shared, .max_tokens = 1, .priority = 5});
  EXPECT_EQ(Step(), "b:+1@5 a:+8@8") << "c finds two blocks, then waits for a";
  EXPECT_EQ(Step(), "a:+8@16 b:+1@6 / a=length");
  EXPECT_EQ(Step(), "b:+1@7 c:+1@23(cached) / c=length");
}

TEST_F(PrefixTest, FailedStepPublishesNothing) {
  const std::vector<int32_t> shared = Fresh(8);
  Add('a', Ask{.prompt = shared});
  Add('b', Ask{.prompt = shared});
  EXPECT_EQ(Plan(), "a:+8@0");
  EXPECT_EQ(CommitFailed(), "a=engine_failed");
  EXPECT_EQ(Step(), "b:+8@0");
}

TEST_F(PrefixTest, RowThatIsNotFiniteFailsItsSequenceAloneAndPublishesNothing) {
  const std::vector<int32_t> shared = Fresh(8);
  Add('a', Ask{.prompt = shared});
  Add('b', 3);
  Add('c', Ask{.prompt = shared, .max_tokens = 1});
  breaks = Id('a');
  EXPECT_EQ(Step(), "a:+8@0 b:+3@0 / a=numerical_fault");
  EXPECT_EQ(Step(), "b:+1@3 c:+8@0 / c=length");
}

TEST_F(PrefixTest, SaltsDividePrefixes) {
  const std::vector<int32_t> shared = Fresh(8);
  Add('a', Ask{.prompt = shared, .max_tokens = 1, .salt = "one"});
  Step();
  Add('b', Ask{.prompt = shared, .max_tokens = 1, .salt = "two"});
  EXPECT_EQ(Step(), "b:+8@0 / b=length");
}

TEST_F(PrefixTest, GeneratedBlocksServeTheNextTurn) {
  const std::vector<int32_t> prompt = Fresh(6);
  Add('a', Ask{.prompt = prompt, .max_tokens = 7});
  std::vector<int32_t> turn = prompt;
  while (scheduler().HasWork()) {
    Step();
    for (const NewToken& token : last_commit.tokens) turn.push_back(token.token_id);
  }
  Add('b', Ask{.prompt = turn + Fresh(2), .max_tokens = 1});
  EXPECT_EQ(Step(), "b:+3@12 / b=length") << "12 of 13 tokens were computed: 3 blocks";
}

TEST_F(PrefixTest, PromptLogitsNeedEveryRowAndWaitForNobody) {
  config.max_num_batched_tokens = 64;
  const std::vector<int32_t> shared = Fresh(8);
  Add('a', Ask{.prompt = shared, .max_tokens = 1});
  Add('b', Ask{.prompt = shared, .max_tokens = 1, .logits = LogitsWanted::kPromptAndGenerated});
  EXPECT_EQ(Step(), "a:+8@0 b:+8@0 / a=length b=length");
  EXPECT_EQ(last_plan.sequences[1].wants_prompt_rows, true);
  EXPECT_EQ(last_commit.ended[1].cached_tokens, 0);
}

TEST_F(PrefixTest, PromptLogitsMayPublish) {
  const std::vector<int32_t> shared = Fresh(8);
  Add('a', Ask{.prompt = shared, .max_tokens = 1, .logits = LogitsWanted::kPromptAndGenerated});
  Step();
  Add('b', Ask{.prompt = shared + Fresh(1), .max_tokens = 1});
  EXPECT_EQ(Step(), "b:+1@8 / b=length");
}

TEST_F(PrefixTest, OldestLeavesAreEvictedFirst) {
  config.num_blocks = 8;
  const std::vector<int32_t> old_prompt = Fresh(16);
  const std::vector<int32_t> new_prompt = Fresh(12);
  Add('a', Ask{.prompt = old_prompt, .max_tokens = 1});
  Step();
  Add('b', Ask{.prompt = new_prompt, .max_tokens = 1});
  Step();
  Add('c', 11, 1);  // 3 blocks, 1 free: the two last of the old prompt go
  Step();
  Add('d', Ask{.prompt = new_prompt + Fresh(1), .max_tokens = 1});
  EXPECT_EQ(last_added.cached_tokens, 12);
  Add('e', Ask{.prompt = old_prompt + Fresh(1), .max_tokens = 1});
  EXPECT_EQ(last_added.cached_tokens, 8);
}

}  // namespace
}  // namespace quire
