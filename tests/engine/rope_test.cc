#include "engine/rope.h"

#include <cmath>

#include "gtest/gtest.h"

namespace quire {
namespace {

void ExpectFrequencies(const RopeFrequencies& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.inv_freq.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found.inv_freq[i] / expected[i], 1.0, 1e-12) << i;
  }
}

ModelConfig WithRope(RopeKind kind, int head_dim, double theta) {
  ModelConfig config;
  config.head_dim = head_dim;
  config.max_position_embeddings = 64;
  config.rope.kind = kind;
  config.rope.theta = theta;
  return config;
}

// The expected numbers are what the code of transformers/modeling_rope_utils.py gives in double.
TEST(RopeTest, DefaultAndLinear) {
  ModelConfig config = WithRope(RopeKind::kDefault, 8, 10000);
  ExpectFrequencies(BuildRopeFrequencies(config, 64), {1, 0.1, 0.01, 0.001});
  config.rope.kind = RopeKind::kLinear;
  config.rope.factor = 4;
  ExpectFrequencies(BuildRopeFrequencies(config, 64), {0.25, 0.025, 0.0025, 0.00025});
}

TEST(RopeTest, Llama3KeepsShortWavesStretchesLongOnesAndBlendsBetween) {
  ModelConfig config = WithRope(RopeKind::kLlama3, 16, 500000);
  config.rope.factor = 8;
  config.rope.low_freq_factor = 1;
  config.rope.high_freq_factor = 4;
  config.rope.original_max_position = 8192;
  ExpectFrequencies(
      BuildRopeFrequencies(config, 64),
      {1, 0.19392274474868576, 0.037606030930863933, 0.0072926647372171085, 0.00052484616099295468,
       3.4281021959525912e-05, 6.6478698711812362e-06, 1.2891731721515574e-06});
}

TEST(RopeTest, YarnRampsOverTheIndexAndScalesCosAndSin) {
  ModelConfig config = WithRope(RopeKind::kYarn, 16, 10000);
  config.rope.factor = 4;
  config.rope.original_max_position = 64;
  config.rope.attention_factor = 1.25;
  ExpectFrequencies(
      BuildRopeFrequencies(config, 64),
      {1, 0.23717082451262847, 0.050000000000000003, 0.0079056941504209478, 0.0025000000000000001,
       0.00079056941504209474, 0.00025000000000000001, 7.9056941504209485e-05});
  EXPECT_EQ(BuildRopeFrequencies(config, 64).scale, 1.25);
  config.rope.truncate = false;
  ExpectFrequencies(
      BuildRopeFrequencies(config, 64),
      {1, 0.19858352015369318, 0.025595245891924211, 0.0079056941504209478, 0.0025000000000000001,
       0.00079056941504209474, 0.00025000000000000001, 7.9056941504209485e-05});
}

TEST(RopeTest, DynamicFixesTheBaseByTheLongestSequence) {
  ModelConfig config = WithRope(RopeKind::kDynamic, 8, 10000);
  config.rope.factor = 4;
  ExpectFrequencies(BuildRopeFrequencies(config, 200),
                    {1, 0.047216319570868345, 0.002229380833818365, 0.00010526315789473686});
  // Four times what it was made for: the base grows by (4 * 4 - 3)^(8 / 6), so that frequency i
  // falls by 13^(i / 3).
  ExpectFrequencies(BuildRopeFrequencies(config, LongestModelLen(config)),
                    {1, 0.1 / std::cbrt(13.0), 0.01 / std::cbrt(169.0), 0.001 / 13});
  ExpectFrequencies(BuildRopeFrequencies(config, 64), {1, 0.1, 0.01, 0.001});
  ExpectFrequencies(BuildRopeFrequencies(config, 32), {1, 0.1, 0.01, 0.001});
}

}  // namespace
}  // namespace quire
