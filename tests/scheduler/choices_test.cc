// Requests of several choices: one prefill, shared blocks, a copy of the last one.
#include "gmock/gmock.h"

#include "tests/scheduler/scheduler_fixture.h"

namespace quire {
namespace {

using ChoicesTest = SchedulerTest;

std::string TokensOf(const CommitResult& commit) {
  std::string text;
  for (const NewToken& token : commit.tokens) {
    absl::StrAppend(&text, text.empty() ? "" : " ", SequenceName(token.id), token.choice, "[",
                    token.index, "]=", token.token_id);
  }
  return text;
}

TEST_F(ChoicesTest, OnePrefillDrawsOneTokenForEachChoice) {
  Add('a', Ask{.prompt = Fresh(6), .max_tokens = 3, .num_choices = 3});
  EXPECT_EQ(Plan(), "a:+6@0");
  EXPECT_EQ(last_plan.sequences[0].num_draws, 3);
  EXPECT_EQ(last_plan.sequences[0].first_choice, 0u);
  EXPECT_EQ(Commit(), "");
  EXPECT_EQ(TokensOf(last_commit), "a0[0]=1006 b1[0]=2006 c2[0]=3006");
}

TEST_F(ChoicesTest, MoreThanAreAllowedAreRefused) {
  config.max_choices = 2;
  EXPECT_EQ(Add('a', Ask{.prompt = Fresh(4), .num_choices = 3}),
            "INVALID_FIELD: n is 3; at most 2 choices are allowed");
  EXPECT_EQ(Add('a', Ask{.prompt = Fresh(4), .num_choices = 2}), "");
}

TEST_F(ChoicesTest, FullBlocksAreSharedAndTheLastOneIsCopied) {
  Add('a', Ask{.prompt = Fresh(6), .max_tokens = 3, .num_choices = 3});
  Step();
  EXPECT_EQ(Plan(), "a:+1@6 b:+1@6 c:+1@6 copy:1>2 copy:1>3");
  const auto& sequences = last_plan.sequences;
  EXPECT_EQ(sequences[0].block_tables[0], (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(sequences[1].block_tables[0], (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(sequences[2].block_tables[0], (std::vector<int32_t>{0, 3}));
  EXPECT_THAT(sequences[1].token_ids, testing::ElementsAre(2006)) << "its own first token";
  EXPECT_EQ(sequences[2].first_choice, 2u);
  Commit();
  EXPECT_EQ(Step(), "a:+1@7 b:+1@7 c:+1@7 / a=length b=length c=length");
  EXPECT_EQ(TokensOf(last_commit), "a0[2]=1008 b1[2]=2008 c2[2]=3008");
  EXPECT_EQ(scheduler().Stats().num_kv_rows, 6 + 3 * 2) << "the prompt was computed once";
  EXPECT_EQ(scheduler().Stats().blocks_held, 0);
}

TEST_F(ChoicesTest, NothingIsCopiedWhereThePromptEndsWithABlock) {
  Add('a', Ask{.prompt = Fresh(8), .max_tokens = 2, .num_choices = 2});
  Step();
  EXPECT_EQ(Step(), "a:+1@8 b:+1@8 / a=length b=length");
}

TEST_F(ChoicesTest, BlocksAreSharedWithoutAPrefixCacheToo) {
  config.prefix_caching = false;
  Add('a', Ask{.prompt = Fresh(6), .max_tokens = 2, .num_choices = 2});
  Step();
  EXPECT_EQ(Plan(), "a:+1@6 b:+1@6 copy:1>2");
  EXPECT_EQ(scheduler().Stats().blocks_held, 3);
  Commit();
}

TEST_F(ChoicesTest, OneThatFindsNoSlotKeepsItsTokenAndMatchesTheCacheLater) {
  config.max_num_seqs = 2;
  Add('a', Ask{.prompt = Fresh(8), .max_tokens = 3, .num_choices = 3});
  Step();
  EXPECT_EQ(Step(), "a:+1@8 b:+1@8");
  EXPECT_EQ(Step(), "a:+1@9 b:+1@9 / a=length b=length");
  EXPECT_EQ(Step(), "c:+1@8") << "the prompt from the cache, its first token from before";
  EXPECT_EQ(TokensOf(last_commit), "c2[1]=3009");
  EXPECT_EQ(Step(), "c:+1@9 / c=length");
}

TEST_F(ChoicesTest, OneThatFindsNoBlocksWaitsAndIsServed) {
  config.num_blocks = 4;
  config.prefix_caching = false;
  Add('a', Ask{.prompt = Fresh(7), .max_tokens = 8, .num_choices = 2});
  EXPECT_LT(RunToEnd(), 40);
  EXPECT_EQ(scheduler().Stats().blocks_held, 0);
}

TEST_F(ChoicesTest, LaterChoicesComeBeforeRequestsThatWaitLonger) {
  config.max_num_seqs = 2;
  Add('a', Ask{.prompt = Fresh(8), .max_tokens = 4, .num_choices = 2});
  Add('c', 3, 1);
  EXPECT_EQ(Step(), "a:+8@0 c:+3@0 / c=length");
  Add('d', 3, 1);
  EXPECT_EQ(Step(), "a:+1@8 b:+1@8") << "b is of the request that came first";
}

TEST_F(ChoicesTest, EndingBeforeThePromptIsComputedEndsAllChoices) {
  Add('a', Ask{.prompt = Fresh(6), .num_choices = 3});
  scheduler().End(Id('b'), EndReason::kAborted);  // there is no b yet
  EXPECT_EQ(Plan(), "a:+6@0");
  scheduler().End(Id('a'), EndReason::kCancelled);
  EXPECT_EQ(Commit(), "a=cancelled b=cancelled c=cancelled");
  EXPECT_EQ(last_commit.ended[2].choice, 2u);
  EXPECT_FALSE(scheduler().HasWork());
}

TEST_F(ChoicesTest, AFaultInThePromptEndsAllChoicesAndALaterOneOnlyItsOwn) {
  Add('a', Ask{.prompt = Fresh(6), .num_choices = 2});
  breaks = Id('a');
  EXPECT_EQ(Step(), "a:+6@0 / a=numerical_fault b=numerical_fault");
  breaks = 0;
  Add('c', Ask{.prompt = Fresh(6), .num_choices = 2});
  Step();
  breaks = Id('d');
  EXPECT_EQ(Step(), "c:+1@6 d:+1@6 copy:1>2 / d=numerical_fault");
}

TEST_F(ChoicesTest, EachChoiceStopsByItself) {
  Add('a', Ask{.prompt = Fresh(5), .max_tokens = 3, .num_choices = 3});
  stops = Id('b');
  EXPECT_EQ(Step(), "a:+5@0 / b=stop");
  EXPECT_EQ(last_commit.ended[0].choice, 1u);
  EXPECT_EQ(last_commit.ended[0].completion_tokens, 1);
  stops = Id('a');
  EXPECT_EQ(Step(), "a:+1@5 c:+1@5 copy:1>2 / a=stop");
  EXPECT_EQ(Step(), "c:+1@6 / c=length");
}

TEST_F(ChoicesTest, WithoutTokensToDrawAllChoicesEndTogether) {
  Add('a', Ask{.prompt = Fresh(5), .max_tokens = 0, .num_choices = 2});
  EXPECT_EQ(Step(), "a:+5@0 / a=length b=length");
}

TEST_F(ChoicesTest, PromptRowsAreComputedForTheFirstChoiceOnly) {
  Add('a', Ask{.prompt = Fresh(6),
               .max_tokens = 3,
               .logits = LogitsWanted::kPromptAndGenerated,
               .num_choices = 2});
  Plan();
  EXPECT_TRUE(last_plan.sequences[0].wants_prompt_rows);
  EXPECT_EQ(last_plan.sequences[0].next_token_id, -1) << "the last row's next token is drawn";
  Commit();
  EXPECT_EQ(Plan(), "a:+1@6 b:+1@6 copy:1>2");
  EXPECT_FALSE(last_plan.sequences[1].wants_prompt_rows);
  Commit();
}

TEST_F(ChoicesTest, ADrawThatFindsNoTokenEndsItsChoice) {
  Add('a', Ask{.prompt = Fresh(5), .max_tokens = 3, .num_choices = 2});
  draws_nothing = Id('a');
  EXPECT_EQ(Step(), "a:+5@0 / a=no_token_allowed");
  EXPECT_EQ(TokensOf(last_commit), "b1[0]=2005");
  EXPECT_EQ(last_commit.ended[0].completion_tokens, 0);
}

TEST_F(ChoicesTest, WithTwoStepsInFlightTheFirstChoiceGoesOnAndTheOthersFollow) {
  config.max_steps_in_flight = 2;
  Add('a', Ask{.prompt = Fresh(6), .max_tokens = 4, .num_choices = 2});
  EXPECT_EQ(Plan(), "a:+6@0");
  EXPECT_EQ(Plan(), "a:+1@6") << "its input is drawn by the step before";
  EXPECT_EQ(last_plan.sequences[0].num_draws, 1);
  Commit();
  EXPECT_EQ(Plan(), "a:+1@7 b:+1@6 copy:1>2");
  Commit();
  Commit();
  EXPECT_LT(RunToEnd(), 10);
}

}  // namespace
}  // namespace quire
