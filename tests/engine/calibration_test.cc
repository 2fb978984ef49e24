#include "engine/calibration.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/model_files.h"
#include "paged_kv/kv_storage.h"
#include "tests/testing/fake_backend.h"
#include "tests/testing/test_files.h"

namespace quire {
namespace {

using ::testing::Each;

TEST(CalibrationTest, WritesNothingAndReadsTheFirstBlockOnly) {
  int num_steps = 0;
  int longest_context = 0;
  FakeBackend backend([&](const HostStep& step, FakeBackend::Answer*) {
    ++num_steps;
    EXPECT_THAT(step.slots, Each(-1));
    EXPECT_THAT(step.block_tables, Each(0));
    longest_context = std::max(longest_context, step.positions.back() + 1);
    return absl::OkStatus();
  });
  const auto files = ModelFiles::Open(OwnGoldenPath("models/llama_mha"));
  ASSERT_TRUE(files.ok()) << files.status();
  constexpr StepLimits kLimits = {.max_num_tokens = 64,
                                  .max_num_seqs = 4,
                                  .max_logit_rows = 4,
                                  .max_samples = 4,
                                  .max_model_len = 256};
  const auto transformer =
      Transformer::Load(**files, backend, kLimits.max_model_len, WeightQuantization::kNone);
  ASSERT_TRUE(transformer.ok()) << transformer.status();
  KvModel kv;
  kv.num_layers = (*transformer)->shape().num_layers;
  kv.num_kv_heads = (*transformer)->shape().num_kv_heads;
  kv.head_dim = (*transformer)->shape().head_dim;
  const KvSpec spec = MakeKvSpec(MakeKvLayout(kv, 16), 8);
  const auto costs = MeasureStepCosts(backend, **transformer, spec, kLimits);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_GT(costs->us_per_step, 0);
  EXPECT_GT(num_steps, 0);
  EXPECT_EQ(longest_context, 256) << "up to the longest sequence, not beyond";
}

TEST(CalibrationTest, CostsFollowFromThreeSteps) {
  // 1000 us for a step, 10 for each further row, 0.5 for each key that a row sees.
  const StepCosts costs =
      CostsFrom(1000, 1000 + 99 * 10, 1000 + 99 * 10 + 100 * 2000 * 0.5, 100, 2000);
  EXPECT_DOUBLE_EQ(costs.us_per_step, 1000);
  EXPECT_DOUBLE_EQ(costs.us_per_row, 10);
  EXPECT_DOUBLE_EQ(costs.us_per_attended, 0.5);
  const StepCosts noise = CostsFrom(1000, 900, 800, 100, 2000);
  EXPECT_EQ(noise.us_per_row, 0);
  EXPECT_EQ(noise.us_per_attended, 0);
}

TEST(CalibrationTest, AFailingDeviceIsReported) {
  FakeBackend backend(
      [](const HostStep&, FakeBackend::Answer*) { return absl::InternalError("no device"); });
  const auto files = ModelFiles::Open(OwnGoldenPath("models/llama_mha"));
  ASSERT_TRUE(files.ok()) << files.status();
  constexpr StepLimits kLimits = {.max_num_tokens = 64,
                                  .max_num_seqs = 4,
                                  .max_logit_rows = 4,
                                  .max_samples = 4,
                                  .max_model_len = 256};
  const auto transformer =
      Transformer::Load(**files, backend, kLimits.max_model_len, WeightQuantization::kNone);
  ASSERT_TRUE(transformer.ok()) << transformer.status();
  KvSpec spec;
  spec.block_size = 16;
  spec.groups.resize(1);
  const auto costs = MeasureStepCosts(backend, **transformer, spec, kLimits);
  EXPECT_EQ(costs.status().message(), "no device");
}

}  // namespace
}  // namespace quire
