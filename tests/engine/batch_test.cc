#include "engine/batch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace quire {
namespace {

using ::testing::ElementsAre;

constexpr StepLimits kLimits = {.max_num_tokens = 64,
                                .max_num_seqs = 8,
                                .max_logit_rows = 16,
                                .max_samples = 16,
                                .max_model_len = 64};

LogitEdits NoEdits(SequenceId) { return {}; }

using Tables = std::vector<std::vector<int32_t>>;  // [num_groups, num_blocks]

// Points to `tables` and, without one of its own, to a request that wants nothing.
PlannedSequence Sequence(int slot, int first_position, const std::vector<int32_t>& tokens,
                         const Tables& tables) {
  static const auto* const request = new Request();
  PlannedSequence sequence;
  sequence.id = slot + 1;
  sequence.seq_slot = slot;
  sequence.first_position = first_position;
  sequence.num_tokens = static_cast<int>(tokens.size());
  sequence.token_ids.assign(tokens.begin(), tokens.end());
  sequence.block_tables = tables;
  sequence.request = request;
  return sequence;
}

TEST(BatchTest, RowsOfAllSequencesLieOneAfterTheOther) {
  const Tables first = {{5}};
  const Tables second = {{7, 3, 9}};
  StepPlan plan;
  plan.sequences = {Sequence(0, 0, {10, 11, 12}, first), Sequence(1, 6, {20, 21}, second)};
  plan.sequences[1].num_draws = 1;
  Batch batch(kLimits, /*num_groups=*/1, /*block_size=*/4);
  batch.Build(plan, NoEdits);
  const HostStep& step = batch.step();
  EXPECT_THAT(step.token_ids, ElementsAre(10, 11, 12, 20, 21));
  EXPECT_THAT(step.positions, ElementsAre(0, 1, 2, 6, 7));
  EXPECT_THAT(step.query_starts, ElementsAre(0, 3, 5));
  // slot = block * 4 + position % 4; positions 6 and 7 are in the second block, which is 3.
  EXPECT_THAT(step.slots, ElementsAre(20, 21, 22, 14, 15));
  EXPECT_EQ(step.max_blocks, 3);
  EXPECT_THAT(step.block_tables, ElementsAre(5, -1, -1, 7, 3, 9));
  EXPECT_THAT(step.logit_rows, ElementsAre(4));
  EXPECT_EQ(step.shape.num_samples, 1);
  EXPECT_EQ(step.samples[0].position, 8) << "the token drawn takes the next position";
  EXPECT_EQ(step.samples[0].seq_slot, 1);
  EXPECT_TRUE(step.logit_taps.empty());
}

TEST(BatchTest, ARowThatIsCachedAlreadyIsNotWritten) {
  const Tables tables = {{1, 2}};
  StepPlan plan;
  plan.sequences = {Sequence(0, 7, {9}, tables)};
  plan.sequences[0].last_row_cached = true;
  Batch batch(kLimits, 1, 4);
  batch.Build(plan, NoEdits);
  EXPECT_THAT(batch.step().slots, ElementsAre(-1));
}

TEST(BatchTest, PromptLogitsTapEveryRowAndShareTheLastWithTheDraw) {
  const Tables first = {{0}};
  const Tables second = {{1}};
  Request request;
  request.logits = LogitsWanted::kPromptAndGenerated;
  StepPlan plan;
  plan.sequences = {Sequence(0, 0, {1}, first), Sequence(1, 0, {2, 3}, second)};
  plan.sequences[0].num_draws = 1;
  plan.sequences[1].num_draws = 1;
  plan.sequences[1].request = &request;
  plan.sequences[1].wants_prompt_rows = true;
  Batch batch(kLimits, 1, 4);
  batch.Build(plan, NoEdits);
  EXPECT_THAT(batch.step().logit_rows, ElementsAre(0, 1, 2));
  EXPECT_THAT(batch.step().logit_taps, ElementsAre(1, 2));
  EXPECT_EQ(batch.outputs()[0].sample_tap, -1);
  EXPECT_EQ(batch.outputs()[1].first_prompt_tap, 0);
  EXPECT_EQ(batch.outputs()[1].sample_tap, 1);
  EXPECT_EQ(batch.step().samples[0].logit_row, 0);
  EXPECT_EQ(batch.step().samples[1].logit_row, 2);
}

TEST(BatchTest, EveryGroupHasItsOwnTablesAndSlots) {
  const Tables tables = {{8, 6}, {-1, 2}};  // a window group gave its first block back
  StepPlan plan;
  plan.sequences = {Sequence(0, 5, {1}, tables)};
  Batch batch(kLimits, /*num_groups=*/2, 4);
  batch.Build(plan, NoEdits);
  EXPECT_THAT(batch.step().slots, ElementsAre(25, 9));
  EXPECT_THAT(batch.step().block_tables, ElementsAre(8, 6, -1, 2));
}

TEST(BatchTest, NothingOfTheStepBeforeRemains) {
  const Tables tables = {{0}};
  StepPlan plan;
  plan.sequences = {Sequence(0, 0, {1, 2, 3}, tables)};
  plan.sequences[0].num_draws = 1;
  plan.copies = {{.source = 4, .target = 5}};
  Batch batch(kLimits, 1, 4);
  batch.Build(plan, NoEdits);
  EXPECT_EQ(batch.step().copies.size(), 1u);
  batch.Build(StepPlan{}, NoEdits);
  EXPECT_EQ(batch.step().shape.num_tokens, 0);
  EXPECT_EQ(batch.step().shape.num_samples, 0);
  EXPECT_TRUE(batch.step().copies.empty());
  EXPECT_TRUE(batch.step().logit_rows.empty());
}

}  // namespace
}  // namespace quire
