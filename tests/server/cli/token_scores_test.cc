#include "server/cli/token_scores.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace quire::cli {
namespace {

TEST(TokenScores, LogSoftmaxOfEqualLogitsIsMinusLogOfTheirNumber) {
  const std::vector<float> logits(1000, 12.5f);
  const RowScores scores = ScoreRow(logits, 7, 3);
  EXPECT_NEAR(scores.next_logprob, -std::log(1000.0), 1e-12);
  EXPECT_EQ(scores.argmax, 0);  // the lowest id among equals
  ASSERT_EQ(scores.top.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(scores.top[i].token_id, i);
}

TEST(TokenScores, TopIsDescendingAndCutAtTheVocabulary) {
  // Probabilities 1/8, 1/2, 1/4, 1/8.
  const std::vector<float> logits = {0, static_cast<float>(std::log(4.0)),
                                     static_cast<float>(std::log(2.0)), 0};
  const RowScores scores = ScoreRow(logits, 2, 10);
  EXPECT_NEAR(scores.next_logprob, std::log(0.25), 1e-7);
  ASSERT_EQ(scores.top.size(), 4u);
  const int ids[] = {1, 2, 0, 3};
  const double probabilities[] = {0.5, 0.25, 0.125, 0.125};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(scores.top[i].token_id, ids[i]);
    EXPECT_NEAR(std::exp(scores.top[i].logprob), probabilities[i], 1e-7);
  }
}

TEST(TokenScores, LargeLogitsDoNotOverflow) {
  const float huge = std::numeric_limits<float>::max();
  const RowScores scores = ScoreRow(std::vector<float>{huge, -huge, 0}, 1, 0);
  EXPECT_EQ(scores.argmax, 0);
  EXPECT_EQ(scores.next_logprob, -2 * double{huge});
}

}  // namespace
}  // namespace quire::cli
