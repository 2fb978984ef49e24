#include "kernels/cpu/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/reference/sampling.h"
#include "tests/kernels/bits.h"

namespace quire {
namespace {

class LogprobsTest : public IsaTest {
 protected:
  RowLogprobs Compute(const std::vector<float>& logits, int32_t token_id, int32_t num_top) const {
    return LogprobsOf(CpuOpsFor(GetParam()), logits.data(), static_cast<int>(logits.size()),
                      token_id, num_top);
  }
};

QUIRE_FOR_EACH_ISA(LogprobsTest);

bool SameToken(const TokenLogprob& a, const TokenLogprob& b) {
  return a.token_id == b.token_id && SameBits(a.logprob, b.logprob);
}

void ExpectSame(const RowLogprobs& actual, const RowLogprobs& expected) {
  EXPECT_TRUE(SameToken(actual.token, expected.token))
      << actual.token.token_id << " " << actual.token.logprob << " " << expected.token.logprob;
  EXPECT_EQ(actual.rank, expected.rank);
  ASSERT_EQ(actual.num_top, expected.num_top);
  for (int i = 0; i < actual.num_top; ++i) {
    ASSERT_TRUE(SameToken(actual.top[i], expected.top[i]))
        << "place " << i << ": token " << actual.top[i].token_id << " " << actual.top[i].logprob
        << ", expected " << expected.top[i].token_id << " " << expected.top[i].logprob;
  }
}

TEST_P(LogprobsTest, HasTheBitsOfTheDefinition) {
  std::mt19937 random(3);
  for (const int vocab_size : {1, 2, 15, 16, 17, 20, 21, 100, 1003, 40000}) {
    for (int kind = 0; kind < 8; ++kind) {
      // Usual, ties, all equal, impossible tokens, denormals and what a broken model says.
      const Values values = kind == 4 ? Values::kSpecial : Values::kUsual;
      std::vector<float> logits = RandomFloats(vocab_size, values, random);
      for (float& x : logits) {
        if (kind == 0) x *= 8;
        if (kind == 1) x = std::round(x);
        if (kind == 2) x = 2.5f;
        if (kind == 3 && random() % 3 != 0) x = -INFINITY;
        if (kind == 5 && random() % 4 != 0) x = NAN;
        if (kind == 6) x = random() % 2 == 0 ? NAN : -INFINITY;
      }
      if (kind == 7) std::sort(logits.begin(), logits.end());
      for (int num_top : {0, 1, 5, 20}) {
        num_top = std::min(num_top, vocab_size);
        const int32_t token_id = static_cast<int32_t>(random() % vocab_size);
        SCOPED_TRACE(testing::Message() << "vocabulary " << vocab_size << " kind " << kind
                                        << " token " << token_id << " top " << num_top);
        ExpectSame(Compute(logits, token_id, num_top),
                   reference::LogprobsOf(logits, token_id, num_top));
      }
      ExpectSame(Compute(logits, kNoToken, 1), reference::LogprobsOf(logits, kNoToken, 1));
    }
  }
}

TEST_P(LogprobsTest, IsTheLogSoftmaxWithinAFewUlp) {
  std::mt19937 random(5);
  for (const float scale : {0.0f, 0.1f, 1.0f, 4.0f, 20.0f}) {
    for (const int vocab_size : {2, 100, 50000}) {
      std::vector<float> logits = RandomFloats(vocab_size, Values::kUsual, random);
      for (float& x : logits) x *= scale;
      const long double max = *std::max_element(logits.begin(), logits.end());
      long double sum = 0;
      for (const float x : logits) sum += std::exp(x - max);
      for (int i = 0; i < 20; ++i) {
        const int32_t id = static_cast<int32_t>(random() % vocab_size);
        const long double expected = logits[id] - max - std::log(sum);
        const RowLogprobs answer = Compute(logits, id, std::min(20, vocab_size));
        // fp32 has 6e-8 of the value; the floor of weights takes at most 2^-40 a token.
        const double tolerance =
            2e-7 * static_cast<double>(1 + std::fabs(expected)) + vocab_size * 0x1p-40;
        ASSERT_NEAR(answer.token.logprob, static_cast<double>(expected), tolerance);
      }
    }
  }
}

TEST_P(LogprobsTest, OrdersByFallingLogitThenRisingId) {
  const std::vector<float> logits = {1, 3, 2, 3, -INFINITY, 2, 3};
  const RowLogprobs answer = Compute(logits, 5, 7);
  std::vector<int32_t> ids;
  for (const TokenLogprob& token : answer.top) ids.push_back(token.token_id);
  ids.resize(answer.num_top);
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 3, 6, 2, 5, 0, 4}));
  EXPECT_EQ(answer.rank, 5);
  EXPECT_EQ(answer.top[6].logprob, -INFINITY);
  // 3 e^3 + 2 e^2 + e^1 below e^3.
  EXPECT_NEAR(answer.top[0].logprob,
              3 - std::log(3 * std::exp(3.0) + 2 * std::exp(2.0) + std::exp(1.0)), 1e-6);
}

TEST_P(LogprobsTest, ASoleCertainTokenHasLogprobZero) {
  const std::vector<float> logits = {0, 100, 0};
  const RowLogprobs answer = Compute(logits, 1, 2);
  EXPECT_EQ(answer.token.logprob, 0.0f);
  EXPECT_EQ(answer.rank, 1);
  EXPECT_EQ(answer.top[1].token_id, 0);
  EXPECT_FLOAT_EQ(answer.top[1].logprob, -100.0f);
}

}  // namespace
}  // namespace quire
