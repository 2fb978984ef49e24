// The promise of Quire, as a test: the same request gives the same tokens and the same bits of
// logits, whatever else happens. Every case asserts a counter that shows that the thing it is
// about did happen.

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "kernels/cpu/isa.h"
#include "tests/testing/sequence_recorder.h"
#include "tests/testing/test_files.h"

namespace quire {
namespace {

constexpr int kPromptTokens = 75;
constexpr int kMaxTokens = 24;

// Sets QUIRE_CPU_ISA for as long as it lives.
class IsaCap {
 public:
  explicit IsaCap(const char* isa) { setenv("QUIRE_CPU_ISA", isa, 1); }
  ~IsaCap() { unsetenv("QUIRE_CPU_ISA"); }
};

std::vector<int32_t> RandomTokens(uint32_t seed, int count, int vocab_size) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocab_size);
  return tokens;
}

// The parameter is a model, and what its weights are computed with where that is not the default:
// _int8 and _int4 quantise them, a last part such as _bf16x2 names the mode.
class ReproducibilityTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    absl::string_view model = GetParam();
    for (const NumericsMode mode : kAllNumericsModes) {
      if (absl::ConsumeSuffix(&model, absl::StrCat("_", NameOf(mode)))) numerics_ = mode;
    }
    if (absl::ConsumeSuffix(&model, "_int8")) quantize_ = WeightQuantization::kInt8;
    if (absl::ConsumeSuffix(&model, "_int4")) quantize_ = WeightQuantization::kInt4;
    path_ = model == "smollm2" ? SmolLm2Path() : OwnGoldenPath(absl::StrCat("models/", model));
    if (model == "smollm2" && !std::filesystem::exists(path_)) {
      GTEST_SKIP() << "SmolLM2 is not at " << path_ << " (deploy/fetch_model.sh fetches it)";
    }
  }

  EngineConfig Config() const {
    EngineConfig config;
    config.model_path = path_;
    config.num_threads = 2;
    config.numerics = numerics_;
    config.quantize = quantize_;
    config.block_size = 16;
    config.kv_cache_bytes = 64 << 20;
    config.max_model_len = 256;
    return config;
  }

  static std::unique_ptr<Engine> Load(const EngineConfig& config) {
    auto engine = Engine::Load(config, [](absl::string_view, double) {});
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  static std::shared_ptr<Request> MakeRequest(const Engine& engine, float temperature,
                                              uint32_t prompt_seed = 1) {
    auto request = std::make_shared<Request>();
    request->prompt_token_ids = RandomTokens(prompt_seed, kPromptTokens, engine.info().vocab_size);
    request->sampling.temperature = temperature;
    request->sampling.seed = 42;
    request->max_tokens = kMaxTokens;
    request->logits = LogitsWanted::kGenerated;
    return request;
  }

  static std::shared_ptr<SequenceRecorder> Submit(Engine& engine,
                                                  std::shared_ptr<const Request> request) {
    auto recorder = std::make_shared<SequenceRecorder>();
    const auto id = engine.Submit(std::move(request), recorder);
    EXPECT_TRUE(id.ok()) << id.status();
    return recorder;
  }

  // The greedy and the random request alone, one after the other, on a fresh engine.
  static std::vector<std::shared_ptr<SequenceRecorder>> RunAlone(Engine& engine) {
    std::vector<std::shared_ptr<SequenceRecorder>> recorders;
    for (float temperature : {0.0f, 0.9f}) {
      recorders.push_back(Submit(engine, MakeRequest(engine, temperature)));
      EXPECT_TRUE(recorders.back()->Wait());
    }
    return recorders;
  }

  static void ExpectSameBits(const std::vector<std::shared_ptr<SequenceRecorder>>& got,
                             const std::vector<std::shared_ptr<SequenceRecorder>>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(want[i]->tokens.size(), static_cast<size_t>(kMaxTokens));
      EXPECT_EQ(got[i]->tokens, want[i]->tokens);
      ASSERT_EQ(got[i]->generated_logits.size(), want[i]->generated_logits.size());
      for (size_t t = 0; t < want[i]->generated_logits.size(); ++t) {
        const std::vector<float>& a = got[i]->generated_logits[t];
        const std::vector<float>& b = want[i]->generated_logits[t];
        ASSERT_EQ(a.size(), b.size());
        ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0)
            << "logits of generated token " << t << " of request " << i;
      }
    }
  }

  // What every case is compared with: alone, two threads, default configuration.
  std::vector<std::shared_ptr<SequenceRecorder>> Baseline() {
    std::unique_ptr<Engine> engine = Load(Config());
    return RunAlone(*engine);
  }

  std::string path_;
  std::optional<NumericsMode> numerics_;
  WeightQuantization quantize_ = WeightQuantization::kNone;
};

TEST_P(ReproducibilityTest, InAStepWithManySequencesAsAlone) {
  std::unique_ptr<Engine> engine = Load(Config());
  std::vector<std::shared_ptr<SequenceRecorder>> others;
  std::vector<std::shared_ptr<SequenceRecorder>> got;
  for (int i = 0; i < 40; ++i) {
    if (i == 20) {
      for (float temperature : {0.0f, 0.9f}) {
        got.push_back(Submit(*engine, MakeRequest(*engine, temperature)));
      }
    }
    auto request = MakeRequest(*engine, i % 3 == 0 ? 0.0f : 1.2f, 100 + i);
    request->prompt_token_ids.resize(5 + i);
    request->max_tokens = 60;
    others.push_back(Submit(*engine, request));
  }
  for (auto& recorder : got) ASSERT_TRUE(recorder->Wait());
  for (auto& recorder : others) ASSERT_TRUE(recorder->Wait());
  EXPECT_GE(engine->Stats().max_seqs_in_step, 33);
  ExpectSameBits(got, Baseline());
}

TEST_P(ReproducibilityTest, InChunksOfSevenAsWhole) {
  EngineConfig config = Config();
  config.max_num_batched_tokens = 7;
  config.max_num_seqs = 4;
  config.prefix_caching = false;
  std::unique_ptr<Engine> engine = Load(config);
  const auto got = RunAlone(*engine);
  // Per request: ceil(75 / 7) = 11 prompt steps, of which the last draws, then 23 of one token.
  // Blocks that are not resident yet may cut a chunk shorter still.
  EXPECT_GE(engine->Stats().num_steps, 2 * (11 + kMaxTokens - 1));
  ExpectSameBits(got, Baseline());
}

// Without models whose layers all have a window: there a sequence never needs more blocks than when
// it was admitted, so that none is preempted.
class PreemptionTest : public ReproducibilityTest {};

TEST_P(PreemptionTest, AfterAPreemptionAsWithout) {
  const std::unique_ptr<Engine> roomy = Load(Config());
  const int64_t block_bytes = roomy->info().kv_cache_bytes / roomy->info().num_blocks;
  EngineConfig config = Config();
  config.max_model_len = 0;
  config.prefix_caching = false;
  // 99 tokens take 7 blocks of 16; a prompt of 75 takes 5. Ten blocks start two, finish one. Where
  // half of the layers have a window, each is also set aside 4 blocks for those; 18 start two, and
  // the other one grows to 9.
  const bool has_two_groups = GetParam() == "qwen2_mixed_window";
  config.kv_cache_bytes = block_bytes * (has_two_groups ? 18 : 10);
  if (has_two_groups) {
    config.max_num_batched_tokens = 16;
    config.max_num_seqs = 4;
  }
  std::vector<int> num_preemptions;
  std::vector<std::shared_ptr<SequenceRecorder>> got(2);
  // The younger of equal requests is the victim, unless the others are nearly done when it comes.
  // A fresh engine each time: one that has had to preempt becomes careful.
  constexpr int kMaxTries = 10;
  for (int i = 0; i < 2; ++i) {
    num_preemptions.push_back(0);
    for (int attempt = 0; attempt < kMaxTries && num_preemptions[i] == 0; ++attempt) {
      std::unique_ptr<Engine> engine = Load(config);
      auto request = MakeRequest(*engine, 1.0f, 7);
      if (has_two_groups) request->max_tokens = 60;
      const auto other = Submit(*engine, request);
      got[i] = Submit(*engine, MakeRequest(*engine, i == 0 ? 0.0f : 0.9f));
      ASSERT_TRUE(got[i]->Wait());
      ASSERT_TRUE(other->Wait());
      num_preemptions[i] = got[i]->end->num_preemptions;
    }
  }
  EXPECT_GE(num_preemptions[0], 1);
  EXPECT_GE(num_preemptions[1], 1);
  ExpectSameBits(got, Baseline());
}

TEST_P(ReproducibilityTest, OnAPrefixHitAsCold) {
  std::unique_ptr<Engine> engine = Load(Config());
  const auto cold = RunAlone(*engine);
  const auto hit = RunAlone(*engine);
  // Four full blocks, and a copy of what is in the fifth but for the last token.
  for (const auto& recorder : hit) EXPECT_EQ(recorder->end->cached_tokens, kPromptTokens - 1);
  EXPECT_EQ(cold[0]->end->cached_tokens, 0);
  ExpectSameBits(hit, Baseline());
  ExpectSameBits(cold, hit);
}

// The whole prompt is cached: its last row is computed again, for its logits, and writes nothing.
TEST_P(ReproducibilityTest, OnAFullHitAsCold) {
  std::unique_ptr<Engine> engine = Load(Config());
  std::vector<std::shared_ptr<SequenceRecorder>> runs;
  for (int i = 0; i < 2; ++i) {
    auto request = MakeRequest(*engine, 0.9f);
    request->prompt_token_ids.resize(64);
    runs.push_back(Submit(*engine, request));
    ASSERT_TRUE(runs.back()->Wait());
  }
  EXPECT_EQ(runs[0]->end->cached_tokens, 0);
  EXPECT_EQ(runs[1]->end->cached_tokens, 64);
  ExpectSameBits({runs[1]}, {runs[0]});
}

TEST_P(ReproducibilityTest, PromptLogitsHaveTheBitsOfOneChunkInMany) {
  std::vector<std::vector<float>> want;
  for (const int max_num_batched_tokens : {512, 7}) {
    EngineConfig config = Config();
    config.max_num_batched_tokens = max_num_batched_tokens;
    config.max_num_seqs = 4;
    std::unique_ptr<Engine> engine = Load(config);
    auto request = MakeRequest(*engine, 0);
    request->max_tokens = 0;
    request->logits = LogitsWanted::kPromptAndGenerated;
    auto recorder = Submit(*engine, request);
    ASSERT_TRUE(recorder->Wait());
    ASSERT_EQ(recorder->prompt_logits.size(), static_cast<size_t>(kPromptTokens));
    if (want.empty()) want = recorder->prompt_logits;
    for (int t = 0; t < kPromptTokens; ++t) {
      ASSERT_EQ(std::memcmp(recorder->prompt_logits[t].data(), want[t].data(),
                            want[t].size() * sizeof(float)),
                0)
          << "position " << t;
    }
  }
}

TEST_P(ReproducibilityTest, WithOneThreadAsWithTwo) {
  EngineConfig config = Config();
  config.num_threads = 1;
  std::unique_ptr<Engine> engine = Load(config);
  EXPECT_NE(engine->info().backend.find("1 thread"), std::string::npos) << engine->info().backend;
  ExpectSameBits(RunAlone(*engine), Baseline());
}

TEST_P(ReproducibilityTest, WithEveryInstructionSetAsWithTheBest) {
  const auto want = Baseline();
  EngineConfig config = Config();
  // The default depends on the instruction set.
  config.numerics = NumericsModeNamed(Load(config)->info().numerics_mode);
  for (const CpuIsa isa :
       {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Vnni, CpuIsa::kAvx512Bf16, CpuIsa::kAmx}) {
    if (!MachineRuns(isa)) {
      std::printf("[  SKIPPED ] this machine lacks %s\n", NameOf(isa));
      continue;
    }
    const IsaCap cap(NameOf(isa));
    std::unique_ptr<Engine> engine = Load(config);
    ASSERT_NE(engine, nullptr);
    EXPECT_NE(engine->info().backend.find(std::string(NameOf(isa)) + ","), std::string::npos)
        << engine->info().backend;
    ExpectSameBits(RunAlone(*engine), want);
  }
}

TEST_P(ReproducibilityTest, WithBlocksInAnyOrderAndOfAnySize) {
  const auto want = Baseline();
  for (const int block_size : {16, 32, 64}) {
    EngineConfig config = Config();
    config.block_size = block_size;
    config.block_shuffle_seed = 5 + block_size;
    std::unique_ptr<Engine> engine = Load(config);
    EXPECT_EQ(engine->info().block_size, block_size);
    ExpectSameBits(RunAlone(*engine), want);
  }
}

TEST_P(ReproducibilityTest, EveryKeyAndValueIsComputedOnce) {
  EngineConfig config = Config();
  config.prefix_caching = false;
  std::unique_ptr<Engine> engine = Load(config);
  RunAlone(*engine);
  EXPECT_EQ(engine->Stats().num_kv_rows, 2 * (kPromptTokens + kMaxTokens - 1));
}

INSTANTIATE_TEST_SUITE_P(Models, ReproducibilityTest,
                         ::testing::Values("llama_mha", "llama_gqa_llama3", "smollm2",
                                           "mistral_window", "qwen2_mixed_window", "qwen3",
                                           "smollm3", "smollm2_bf16x2", "smollm2_a8g32",
                                           "smollm2_bf16x32", "qwen3_int8", "qwen3_int8_bf16x32",
                                           "mistral_window_int4", "mistral_window_int4_a8g32x32",
                                           "llama_gqa_llama3_int4"),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Models, PreemptionTest,
                         ::testing::Values("llama_mha", "llama_gqa_llama3", "smollm2",
                                           "qwen2_mixed_window", "qwen3", "smollm3"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace quire
