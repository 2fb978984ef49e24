#include "engine/kv_plan.h"

#include "gtest/gtest.h"

#include "engine/memory_plan.h"

namespace quire {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// 30 layers, 3 KV heads of 64: 30 * 2 * 3 * 64 * 2 bytes = 23 040 bytes per token.
ModelConfig SmallModel() {
  ModelConfig model;
  model.num_layers = 30;
  model.num_kv_heads = 3;
  model.head_dim = 64;
  model.max_position_embeddings = 8192;
  return model;
}

EngineConfig Config() {
  EngineConfig config;
  config.block_size = 32;
  return config;
}

TEST(KvPlanTest, BlocksFillTheBytesAskedFor) {
  EngineConfig config = Config();
  config.kv_cache_bytes = 23040 * 32 * 100 + 5;
  const auto plan = PlanKv(config, SmallModel(), 64 * kGiB, 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->layout.block_bytes, 23040 * 32);
  EXPECT_EQ(plan->num_blocks, 100);
}

TEST(KvPlanTest, TheDefaultIsAQuarterOfWhatTheWeightsLeave) {
  const auto plan = PlanKv(Config(), SmallModel(), 5 * kGiB, kGiB);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->num_blocks, kGiB / (23040 * 32));
}

TEST(KvPlanTest, ASmallPoolShortensTheLongestSequence) {
  EngineConfig config = Config();
  config.kv_cache_bytes = 23040 * 32 * 10;
  const auto plan = PlanKv(config, SmallModel(), kGiB, 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->max_model_len, 320);
}

TEST(KvPlanTest, TheOperatorMayShortenItFurther) {
  EngineConfig config = Config();
  config.max_model_len = 1000;
  const auto plan = PlanKv(config, SmallModel(), 64 * kGiB, 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->max_model_len, 1000);
}

TEST(KvPlanTest, DynamicRopeMakesSequencesLongerByItsFactor) {
  ModelConfig model = SmallModel();
  model.rope.kind = RopeKind::kDynamic;
  model.rope.factor = 4;
  EngineConfig config = Config();
  auto plan = PlanKv(config, model, 64 * kGiB, 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->max_model_len, 4 * 8192);
  config.max_model_len = 4 * 8192 + 1;
  plan = PlanKv(config, model, 64 * kGiB, 0);
  EXPECT_EQ(plan.status().message(),
            "--max-model-len is 32769; the model was made for at most 32768 tokens "
            "(max_position_embeddings, stretched by the factor of its rope)");
}

TEST(KvPlanTest, LayersWithAWindowAreAGroupOfTheirOwnUnlessNothingOutgrowsIt) {
  ModelConfig model = SmallModel();
  model.layer_windows.assign(30, 1024);
  auto plan = PlanKv(Config(), model, 64 * kGiB, 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->layout.GroupWindows(), std::vector<int32_t>{1024});
  for (int layer = 0; layer < 15; ++layer) model.layer_windows[2 * layer] = 0;
  plan = PlanKv(Config(), model, 64 * kGiB, 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->layout.GroupWindows(), (std::vector<int32_t>{0, 1024}));
  EngineConfig shorter = Config();
  shorter.max_model_len = 1024;
  plan = PlanKv(shorter, model, 64 * kGiB, 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->layout.GroupWindows(), std::vector<int32_t>{0});
}

TEST(KvPlanTest, TheMemoryPlanHasTheBlocksThatTheEngineWillTake) {
  ModelConfig model = SmallModel();
  model.num_heads = 9;
  model.layer_windows.assign(30, 0);
  for (int layer = 15; layer < 30; ++layer) model.layer_windows[layer] = 4096;
  EngineConfig config = Config();
  for (const int32_t num_tokens : {2048, 8192}) {
    config.max_model_len = num_tokens;
    const auto taken = PlanKv(config, model, 64 * kGiB, 0);
    ASSERT_TRUE(taken.ok()) << taken.status();
    const auto planned = PlanMemory(model, {.num_tokens = num_tokens, .block_size = 32});
    ASSERT_TRUE(planned.ok()) << planned.status();
    EXPECT_EQ(planned->block_bytes, taken->layout.block_bytes) << num_tokens;
  }
  // Half of the layers see all 8192 tokens, 256 blocks; the others the 4095 before a step's first
  // row and its 512 rows, which touch 145.
  EXPECT_EQ(PlanMemory(model, {.num_tokens = 8192, .block_size = 32})->blocks_per_seq, 256 + 145);
  // None outgrows its window: one group of all layers.
  EXPECT_EQ(PlanMemory(model, {.num_tokens = 2048, .block_size = 32})->block_bytes, 23040 * 32);
}

TEST(KvPlanTest, WeightsThatDoNotFitAreNamedAsTheCause) {
  const auto plan = PlanKv(Config(), SmallModel(), 6 * kGiB, 8 * kGiB);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(plan.status().message()).find("weights take 8589934592 bytes"),
            std::string::npos)
      << plan.status();
}

struct Refusal {
  const char* name;
  void (*change)(EngineConfig&);
  absl::StatusCode code;
  const char* message_has;
};

class KvPlanRefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(KvPlanRefusalTest, NamesTheOptionAndTheValue) {
  EngineConfig config = Config();
  GetParam().change(config);
  const auto plan = PlanKv(config, SmallModel(), kGiB, 0);
  EXPECT_EQ(plan.status().code(), GetParam().code) << plan.status();
  EXPECT_NE(std::string(plan.status().message()).find(GetParam().message_has), std::string::npos)
      << plan.status();
}

INSTANTIATE_TEST_SUITE_P(
    Options, KvPlanRefusalTest,
    ::testing::Values(
        Refusal{"BlockSize", [](EngineConfig& c) { c.block_size = 24; },
                absl::StatusCode::kFailedPrecondition, "--block-size is 24"},
        Refusal{"NoSequences", [](EngineConfig& c) { c.max_num_seqs = 0; },
                absl::StatusCode::kFailedPrecondition, "--max-num-seqs is 0"},
        Refusal{"FewerTokensThanSequences", [](EngineConfig& c) { c.max_num_batched_tokens = 64; },
                absl::StatusCode::kFailedPrecondition, "--max-num-batched-tokens is 64"},
        Refusal{"LongerThanTheModel", [](EngineConfig& c) { c.max_model_len = 8193; },
                absl::StatusCode::kFailedPrecondition, "at most 8192"},
        Refusal{"MoreThanThereIs", [](EngineConfig& c) { c.kv_cache_bytes = 2 * kGiB; },
                absl::StatusCode::kResourceExhausted, "2147483648"},
        Refusal{"LessThanABlock", [](EngineConfig& c) { c.kv_cache_bytes = 1000; },
                absl::StatusCode::kResourceExhausted, "raise --kv-cache"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace quire
