#include "engine/weight_plan.h"

#include <vector>

#include "gtest/gtest.h"

namespace quire {
namespace {

// A model of one layer with matrices [64, 64] of one type, and an embedding [96, 64] of another.
class WeightPlanTest : public testing::Test {
 protected:
  ModelWeights Model(DType layer, DType vocabulary, bool tied = true) {
    embedding_.view = {nullptr, vocabulary, 96, 64};
    head_.view = embedding_.view;
    matrix_.view = {nullptr, layer, 64, 64};
    ModelWeights weights;
    weights.embedding = &embedding_;
    weights.head = tied ? &embedding_ : &head_;
    LayerWeights one;
    one.q = one.k = one.v = one.out = one.gate = one.up = one.down = &matrix_;
    weights.layers = {one};
    return weights;
  }

  FileTensor embedding_, head_, matrix_;
};

constexpr int64_t kBf16Matrix = 64 * 64 * 2;
constexpr int64_t kQ8Matrix = 64 * 2 * 34;  // rows of two blocks
constexpr int64_t kQ4Matrix = 64 * 2 * 18;
constexpr int64_t kBf16Vocabulary = 96 * 64 * 2;
constexpr int64_t kQ8Vocabulary = 96 * 2 * 34;

TEST_F(WeightPlanTest, PlainWeightsAreHeldAsBf16) {
  const auto plan = PlanWeights({}, Model(DType::kF32, DType::kF16), CpuIsa::kAvx512Bf16);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->numerics, NumericsMode::kBf16x2);
  EXPECT_EQ(plan->bytes, 7 * kBf16Matrix + kBf16Vocabulary);
}

TEST_F(WeightPlanTest, QuantisedWeightsAreHeldAsTheyAre) {
  const auto plan =
      PlanWeights({}, Model(DType::kQ4_0, DType::kQ8_0, /*tied=*/false), CpuIsa::kAvx512Bf16);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->numerics, NumericsMode::kA8g32);
  EXPECT_EQ(plan->bytes, 7 * kQ4Matrix + 2 * kQ8Vocabulary);
}

TEST_F(WeightPlanTest, OneQuantisedMatrixIsEnough) {
  const auto plan = PlanWeights({}, Model(DType::kF32, DType::kQ8_0), CpuIsa::kAvx512Bf16);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->numerics, NumericsMode::kA8g32);
  EXPECT_EQ(plan->bytes, 7 * kBf16Matrix + kQ8Vocabulary);
}

TEST_F(WeightPlanTest, AmxGoesByBlocks) {
  EXPECT_EQ(PlanWeights({}, Model(DType::kBF16, DType::kBF16), CpuIsa::kAmx)->numerics,
            NumericsMode::kBf16x32);
  EXPECT_EQ(PlanWeights({}, Model(DType::kQ4_0, DType::kBF16), CpuIsa::kAmx)->numerics,
            NumericsMode::kBf16x32);
  EngineConfig config;
  config.quantize = WeightQuantization::kInt4;
  const auto plan = PlanWeights(config, Model(DType::kBF16, DType::kBF16), CpuIsa::kAmx);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->numerics, NumericsMode::kBf16x32);
  EXPECT_EQ(plan->bytes, 7 * kQ4Matrix + kQ8Vocabulary);
}

TEST_F(WeightPlanTest, TheModeCanBeAskedFor) {
  EngineConfig config;
  config.numerics = NumericsMode::kBf16x2;
  const auto plan = PlanWeights(config, Model(DType::kQ4_0, DType::kQ4_0), CpuIsa::kAvx512Bf16);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->numerics, NumericsMode::kBf16x2);
  EXPECT_EQ(plan->bytes, 7 * kBf16Matrix + kBf16Vocabulary);
}

TEST_F(WeightPlanTest, PlainWeightsCanBeQuantised) {
  EngineConfig config;
  config.quantize = WeightQuantization::kInt8;
  EXPECT_EQ(PlanWeights(config, Model(DType::kBF16, DType::kBF16), CpuIsa::kAvx512Bf16)->bytes,
            7 * kQ8Matrix + kQ8Vocabulary);
  config.quantize = WeightQuantization::kInt4;
  const auto plan = PlanWeights(config, Model(DType::kBF16, DType::kBF16), CpuIsa::kAvx512Bf16);
  EXPECT_EQ(plan->bytes, 7 * kQ4Matrix + kQ8Vocabulary) << "the vocabulary keeps eight bits";
  EXPECT_EQ(plan->numerics, NumericsMode::kA8g32);
  // What is quantised already stays what it is.
  EXPECT_EQ(PlanWeights(config, Model(DType::kQ8_0, DType::kBF16), CpuIsa::kAvx512Bf16)->bytes,
            7 * kQ8Matrix + kQ8Vocabulary);
}

TEST_F(WeightPlanTest, WeightsAreCountedByTheRowsThatMeetThem) {
  for (const bool tied : {false, true}) {
    const auto plan = PlanWeights({}, Model(DType::kBF16, DType::kQ8_0, tied), CpuIsa::kAvx512Bf16);
    EXPECT_EQ(plan->num_layer_weights, 7 * 64 * 64);
    EXPECT_EQ(plan->num_head_weights, 96 * 64);
  }
}

TEST_F(WeightPlanTest, ContradictionsAreRefused) {
  EngineConfig config;
  config.numerics = NumericsMode::kA8g32;
  absl::Status status =
      PlanWeights(config, Model(DType::kBF16, DType::kBF16), CpuIsa::kAvx512Bf16).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("--quantize"), absl::string_view::npos) << status;
  config.numerics = NumericsMode::kBf16x32;
  config.quantize = WeightQuantization::kInt8;
  EXPECT_EQ(PlanWeights(config, Model(DType::kBF16, DType::kBF16), CpuIsa::kAvx2)->bytes,
            7 * kQ8Matrix + kQ8Vocabulary);
  config.numerics = NumericsMode::kBf16x2;
  status = PlanWeights(config, Model(DType::kBF16, DType::kBF16), CpuIsa::kAvx512Bf16).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("--numerics bf16x2"), absl::string_view::npos) << status;
  config.numerics = std::nullopt;
  status = PlanWeights(config, Model(DType::kQ4_0, DType::kQ8_0), CpuIsa::kAvx512Bf16).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("--quantize rounds"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace quire
