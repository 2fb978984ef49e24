#include "kernels/cpu/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
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

  SampleRow RandomRow(int vocab_size) {
    const auto one_of = [&](std::vector<float> values) {
      return values[random_() % values.size()];
    };
    SampleRow row;
    row.temperature = one_of({0.0f, 0.01f, 0.7f, 1.0f, 1.0f, 2.5f, 100.0f});
    row.top_k = static_cast<int>(one_of({0, 0, 1, 2, 5, 50, static_cast<float>(vocab_size)}));
    row.top_p = one_of({1.0f, 1.0f, 0.95f, 0.5f, 0.1f, 0.0f, 0.9999f});
    row.min_p = one_of({0.0f, 0.0f, 0.05f, 0.001f, 0.5f, 1.0f, 1e-9f});
    row.seed = random_() | (uint64_t{random_()} << 32);
    row.choice = random_() % 4;
    row.position = static_cast<int32_t>(random_() % 100000);
    return row;
  }

  std::mt19937 random_{1};
};

QUIRE_FOR_EACH_ISA(SamplingTest);

std::string ToString(const SampleRow& row) {
  return testing::PrintToString(std::vector<double>{row.temperature, double(row.top_k), row.top_p,
                                                    row.min_p, double(row.position)});
}

TEST_P(SamplingTest, DrawsTheTokenOfTheDefinition) {
  for (int vocab_size : {1, 2, 15, 16, 17, 100, 1003}) {
    TokenSampler sampler(ops(), vocab_size);
    for (int round = 0; round < 400; ++round) {
      // Wide, narrow, with many ties, all equal, with masked tokens, with NaNs.
      std::vector<float> logits = RandomFloats(vocab_size, Values::kUsual, random_);
      const int kind = round % 6;
      for (float& x : logits) {
        if (kind == 0) x *= 8;
        if (kind == 1) x *= 0.01f;
        if (kind == 2) x = std::round(x * 2);
        if (kind == 3) x = -1.5f;
        if (kind == 4 && random_() % 3 != 0) x = -INFINITY;
        if (kind == 5 && random_() % 16 == 0) x = NAN;
      }
      const SampleRow row = RandomRow(vocab_size);
      ASSERT_EQ(sampler.Draw(logits.data(), row),
                reference::SampleToken(logits.data(), vocab_size, row))
          << "vocabulary " << vocab_size << " kind " << kind << " " << ToString(row);
    }
  }
}

TEST_P(SamplingTest, DrawsTheTokenOfTheDefinitionFromALargeVocabulary) {
  const int vocab_size = 49152;
  TokenSampler sampler(ops(), vocab_size);
  for (int round = 0; round < 24; ++round) {
    std::vector<float> logits = RandomFloats(vocab_size, Values::kUsual, random_);
    for (float& x : logits) x *= round % 3 == 0 ? 3.0f : 0.5f;
    const SampleRow row = RandomRow(vocab_size);
    ASSERT_EQ(sampler.Draw(logits.data(), row),
              reference::SampleToken(logits.data(), vocab_size, row))
        << ToString(row);
  }
}

TEST_P(SamplingTest, RowsWithoutAFiniteMaximumAreGreedy) {
  const int vocab_size = 40;
  TokenSampler sampler(ops(), vocab_size);
  SampleRow row;
  row.temperature = 1;
  row.top_p = 0.5f;
  std::vector<float> logits(vocab_size, -INFINITY);
  EXPECT_EQ(sampler.Draw(logits.data(), row), 0);
  std::fill(logits.begin(), logits.end(), NAN);
  EXPECT_EQ(sampler.Draw(logits.data(), row), 0);
  logits[7] = INFINITY;
  logits[9] = INFINITY;
  EXPECT_EQ(sampler.Draw(logits.data(), row), 7);
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
  const uint64_t target = TopPTarget(0.1f, 50 * kFullWeight);
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
