#include "kernels/cpu/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/reference/sampling.h"
#include "kernels/cpu/sampling_rule.h"
#include "tests/kernels/bits.h"

namespace quire {
namespace {

// Vectors of Random123 (kat_vectors, philox4x32 10).
TEST(Philox, ComputesTheKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(reference::Philox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(reference::Philox({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      reference::Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

class SamplingTest : public IsaTest {
 protected:
  const CpuOps& ops() const { return CpuOpsFor(GetParam()); }
};

QUIRE_FOR_EACH_ISA(SamplingTest);

TEST_P(SamplingTest, RowsWithoutAFiniteMaximumAreGreedy) {
  const int vocab_size = 40;
  TokenSampler sampler(ops(), vocab_size);
  SampleRow row;
  row.temperature = 1;
  row.top_p = 0.5f;
  std::vector<float> logits(vocab_size, -INFINITY);
  EXPECT_EQ(sampler.Draw(logits.data(), row), kNoToken);
  std::fill(logits.begin(), logits.end(), NAN);
  EXPECT_EQ(sampler.Draw(logits.data(), row), kNoToken);
  logits[7] = INFINITY;
  logits[9] = INFINITY;
  EXPECT_EQ(sampler.Draw(logits.data(), row), 7);
}

TEST_P(SamplingTest, BannedTokensAreNeverDrawn) {
  const int vocab_size = 40;
  TokenSampler sampler(ops(), vocab_size);
  const std::vector<float> logits(vocab_size, 3.0f);
  std::vector<int32_t> banned(vocab_size);
  std::iota(banned.begin(), banned.end(), 0);
  const std::vector<uint32_t> only_33 = {0, 1u << 1};
  const std::vector<int32_t> token_33 = {33};
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float typical_p : {1.0f, 0.9f}) {
      SampleRow row = {.temperature = temperature, .typical_p = typical_p, .xtc_probability = 1};
      row.edits.banned = banned;
      EXPECT_EQ(sampler.Draw(logits.data(), row), kNoToken) << "all";
      row.edits.banned = absl::MakeConstSpan(banned).subspan(0, 39);
      EXPECT_EQ(sampler.Draw(logits.data(), row), 39) << "all but the last";
      row.edits = {.allowed = only_33};
      EXPECT_EQ(sampler.Draw(logits.data(), row), 33) << "one is allowed";
      row.edits.banned = token_33;
      EXPECT_EQ(sampler.Draw(logits.data(), row), kNoToken) << "it is banned too";
    }
  }
}

TEST_P(SamplingTest, PenaltiesAreThoseOfTheFormulas) {
  // Greedy makes a penalty visible: the token is the best just as long as it stays above 1.
  TokenSampler sampler(ops(), 2);
  const auto best_of = [&](float logit, const LogitEdits& edits) {
    const std::vector<float> logits = {logit, 1.0f};
    return sampler.Draw(logits.data(), {.edits = edits});
  };
  const std::vector<TokenCount> thrice = {{.token_id = 0, .num_generated = 3}};
  const std::vector<TokenCount> prompt = {{.token_id = 0, .in_prompt = true}};
  EXPECT_EQ(best_of(2.01f, {.counts = prompt, .repetition_penalty = 2}), 0);
  EXPECT_EQ(best_of(1.99f, {.counts = prompt, .repetition_penalty = 2}), 1);
  EXPECT_EQ(best_of(2.49f, {.counts = thrice, .frequency_penalty = 0.5f}), 1);
  EXPECT_EQ(best_of(2.51f, {.counts = thrice, .frequency_penalty = 0.5f}), 0);
  EXPECT_EQ(best_of(1.49f, {.counts = thrice, .presence_penalty = 0.5f}), 1);
  EXPECT_EQ(best_of(1.51f, {.counts = thrice, .presence_penalty = 0.5f}), 0);
  EXPECT_EQ(best_of(1.01f, {.counts = prompt, .frequency_penalty = 2, .presence_penalty = 2}), 0)
      << "only generated tokens count";
  // Division comes first: 6 / 2 - 3 * 0.5 - 0.4 = 1.1.
  const LogitEdits all = {.counts = thrice,
                          .repetition_penalty = 2,
                          .frequency_penalty = 0.5f,
                          .presence_penalty = 0.4f};
  EXPECT_EQ(best_of(6.0f, all), 0);
  EXPECT_EQ(best_of(5.7f, all), 1);
  // A negative logit is multiplied: a bonus below 1 lifts it.
  const std::vector<float> negative = {-4.0f, -2.1f};
  EXPECT_EQ(
      sampler.Draw(negative.data(), {.edits = {.counts = prompt, .repetition_penalty = 0.5f}}), 0);
}

TEST_P(SamplingTest, XtcExcludesAllButTheLeastOfTheTopChoices) {
  // Probabilities 0.4, 0.3, 0.2, 0.1.
  const std::vector<float> logits = {std::log(0.2f), std::log(0.4f), std::log(0.1f),
                                     std::log(0.3f)};
  TokenSampler sampler(ops(), 4);
  std::map<int32_t, int> always, half;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SampleRow row = {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.15f, .seed = seed};
    ++always[sampler.Draw(logits.data(), row)];
    row.xtc_probability = 0.5f;
    ++half[sampler.Draw(logits.data(), row)];
  }
  // Tokens 1, 3 and 0 are above the threshold: 0 stays, and 2, which is below.
  EXPECT_EQ(always.size(), 2u);
  EXPECT_EQ(always[0] + always[2], 400);
  // Of half of the draws nothing is excluded: 1 and 3 get 0.7 of them, 140 within 5 sigma of 10.
  EXPECT_NEAR(half[1] + half[3], 140, 50);
}

TEST_P(SamplingTest, TopNSigmaMeasuresFromTheMaximum) {
  // 100 tokens of -1 and 100 of 1 have mean 0 and deviation 1; with one of 3, nearly so.
  std::vector<float> logits(201, -1.0f);
  std::fill(logits.begin() + 100, logits.end(), 1.0f);
  logits[150] = 3.0f;
  TokenSampler sampler(ops(), 201);
  std::set<int32_t> narrow, wide;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const SampleRow row = {.temperature = 2, .top_n_sigma = 1.5f, .seed = seed};
    narrow.insert(sampler.Draw(logits.data(), row));
    SampleRow more = row;
    more.top_n_sigma = 2.5f;
    wide.insert(sampler.Draw(logits.data(), more));
  }
  EXPECT_EQ(narrow, std::set<int32_t>{150});
  EXPECT_GT(wide.size(), 50u);
  EXPECT_GE(*wide.begin(), 100) << "those of -1 are four deviations below";
}

TEST_P(SamplingTest, TiesGoToTheLowestIds) {
  const int vocab_size = 50;
  TokenSampler sampler(ops(), vocab_size);
  std::vector<float> logits(vocab_size, 1.0f);
  SampleRow row;
  EXPECT_EQ(sampler.Draw(logits.data(), row), 0) << "greedy";
  // top_k = 3 of equal tokens keeps 0, 1, 2; top_p = 0.1 of 50 keeps five.
  std::map<int32_t, int> by_k, by_p;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    row = {.temperature = 1, .top_k = 3, .seed = seed};
    ++by_k[sampler.Draw(logits.data(), row)];
    row = {.temperature = 1, .top_p = 0.1f, .seed = seed};
    ++by_p[sampler.Draw(logits.data(), row)];
  }
  ASSERT_EQ(by_k.size(), 3u);
  EXPECT_EQ(by_k.rbegin()->first, 2);
  // 0.1f is a little more than a tenth: the sixth token is needed to reach it, unless the fraction
  // is cut to 32 bits first. What counts is that the definition is met exactly.
  const uint64_t target = ShareOf(50 * kFullWeight, 0.1f);
  EXPECT_EQ(by_p.size(), (target + kFullWeight - 1) / kFullWeight);
  EXPECT_EQ(by_p.rbegin()->first, static_cast<int>(by_p.size()) - 1);
}

// Pearson's statistic of counts against probabilities.
double ChiSquare(const std::vector<int>& counts, const std::vector<double>& probabilities,
                 int num_draws) {
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * num_draws;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

TEST_P(SamplingTest, FrequenciesAreThoseOfTheSoftmax) {
  // Seeds, positions and choices each give independent draws. 21 degrees of freedom: the statistic
  // is above 46.8 once in a thousand times; seeds are fixed, so this does not flicker.
  constexpr int kVocab = 22;
  constexpr int kDraws = 40000;
  std::vector<float> logits(kVocab);
  std::vector<double> probabilities(kVocab);
  double sum = 0;
  for (int i = 0; i < kVocab; ++i) {
    logits[i] = static_cast<float>(i * 7 % kVocab) * 0.15f;
    sum += probabilities[i] = std::exp(logits[i] / 0.8);
  }
  for (double& p : probabilities) p /= sum;
  TokenSampler sampler(ops(), kVocab);
  for (int varied = 0; varied < 3; ++varied) {
    std::vector<int> counts(kVocab);
    for (int i = 0; i < kDraws; ++i) {
      SampleRow row = {.temperature = 0.8f, .seed = 5, .choice = 3, .position = 17};
      if (varied == 0) row.seed = i;
      if (varied == 1) row.position = i;
      if (varied == 2) row.choice = i;
      ++counts[sampler.Draw(logits.data(), row)];
    }
    EXPECT_LT(ChiSquare(counts, probabilities, kDraws), 46.8) << "varied: " << varied;
  }
}

TEST_P(SamplingTest, ALargeFlatVocabularyIsDrawnEvenly) {
  // Coarse random numbers would favour low ids here, through ties.
  constexpr int kVocab = 1 << 18;
  constexpr int kParts = 8;
  const int num_draws = GetParam() == CpuIsa::kReference ? 20 : 200;
  const std::vector<float> logits(kVocab, 2.0f);
  TokenSampler sampler(ops(), kVocab);
  std::vector<int> counts(kParts);
  for (int i = 0; i < num_draws; ++i) {
    const SampleRow row = {.temperature = 1, .seed = 11, .position = i};
    ++counts[sampler.Draw(logits.data(), row) / (kVocab / kParts)];
  }
  // 7 degrees of freedom.
  EXPECT_LT(ChiSquare(counts, std::vector<double>(kParts, 1.0 / kParts), num_draws), 24.3);
}

}  // namespace
}  // namespace quire
