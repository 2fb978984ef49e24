#include "engine/transformer.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/testing/test_files.h"

namespace quire {
namespace {

// Writes down what is asked of it: handles are numbered in the order of packing.
class RecordingBackend : public Backend {
 public:
  std::string log;

  std::string Describe() const override { return "recording"; }
  std::string NumericsName() const override { return "none"; }
  absl::Status Supports(const ModelShape& shape) const override {
    return shape.vocab_size == unsupported_vocab_size
               ? absl::UnimplementedError(absl::StrCat("vocab_size ", shape.vocab_size))
               : absl::OkStatus();
  }
  absl::StatusOr<MatrixId> PackMatrix(absl::Span<const MatrixPart> parts) override {
    absl::StrAppend(&log, "m", ++num_matrices_, "=", Text(parts), "\n");
    return MatrixId{num_matrices_};
  }
  absl::StatusOr<MatrixId> PackGateUp(const MatrixPart& gate, const MatrixPart& up) override {
    absl::StrAppend(&log, "m", ++num_matrices_, "=gate_up ", Text({{gate}, {up}}), "\n");
    return MatrixId{num_matrices_};
  }
  absl::StatusOr<VectorId> PackVector(absl::Span<const MatrixPart> parts) override {
    if (++num_vectors_ == failing_vector) return absl::InternalError("no more memory");
    absl::StrAppend(&log, "v", num_vectors_, "=", Text(parts), "\n");
    return VectorId{num_vectors_};
  }
  absl::StatusOr<RopeId> MakeRope(absl::Span<const double> inv_freq, double scale,
                                  int max_positions) override {
    absl::StrAppend(&log, "rope ", inv_freq.size(), " x", scale, " up to ", max_positions, "\n");
    return RopeId{0};
  }
  absl::Status Reserve(const ModelShape&, const StepLimits&) override { return absl::OkStatus(); }
  absl::Status AllocateKv(const KvSpec&) override { return absl::OkStatus(); }
  void TouchKv(int, int) override {}
  int64_t WeightBytes() const override { return 0; }
  StepTicket Launch(const HostStep&, const Forward&) override { return {}; }
  absl::StatusOr<StepResult> Collect(StepTicket) override { return StepResult{}; }

  void CopyBlocks() override { log += "copy\n"; }
  void Embed(MatrixId embedding) override {
    absl::StrAppend(&log, "embed m", embedding.value, "\n");
  }
  void NormQkvRopeAppend(const QkvArgs& args) override {
    absl::StrAppend(&log, "qkv ", args.layer, ": v", args.norm.value, " m", args.qkv.value, " v",
                    args.bias.value, " rope", args.rope.value,
                    args.q_norm.value < 0 ? "" : absl::StrCat(" q_norm v", args.q_norm.value),
                    args.k_norm.value < 0 ? "" : absl::StrCat(" k_norm v", args.k_norm.value),
                    "\n");
  }
  void Attend(int layer) override { absl::StrAppend(&log, "attend ", layer, "\n"); }
  void OutProjAdd(MatrixId out, VectorId bias) override {
    absl::StrAppend(&log, "out m", out.value, " v", bias.value, "\n");
  }
  void NormMlpAdd(const MlpArgs& args) override {
    absl::StrAppend(&log, "mlp v", args.norm.value, " m", args.gate_up.value, " v",
                    args.gate_bias.value, " v", args.up_bias.value, " m", args.down.value, " v",
                    args.down_bias.value, "\n");
  }
  void LogitsOfRows(VectorId norm, MatrixId head) override {
    absl::StrAppend(&log, "logits v", norm.value, " m", head.value, "\n");
  }
  void Sample() override { log += "sample\n"; }
  void Logprobs() override { log += "logprobs\n"; }

  int unsupported_vocab_size = 0;
  int failing_vector = 0;

 private:
  static std::string Text(absl::Span<const MatrixPart> parts) {
    std::string text;
    for (const MatrixPart& part : parts) {
      absl::StrAppend(
          &text, text.empty() ? "" : " ", part.view.rows, "x", part.view.cols,
          part.order == RowOrder::kRotaryInterleaved ? absl::StrCat("~", part.head_dim) : "");
    }
    return text;
  }

  int num_matrices_ = 0;
  int num_vectors_ = 0;
};

// What loading and one step of the model ask of a backend; for each sample, a log-probability too.
std::string Trace(const std::string& name, int num_samples) {
  const auto files = ModelFiles::Open(OwnGoldenPath(name));
  if (!files.ok()) return std::string(files.status().message());
  RecordingBackend backend;
  const auto model = Transformer::Load(**files, backend, 100, WeightQuantization::kNone);
  if (!model.ok()) return std::string(model.status().message());
  (*model)->Forward(
      backend,
      {.num_tokens = 1, .num_seqs = 1, .num_samples = num_samples, .num_logprobs = num_samples});
  return backend.log;
}

TEST(TransformerTest, AnUntiedModelWithBiases) {
  EXPECT_EQ(Trace("models/llama_bias", 1), R"(rope 8 x1 up to 100
m1=512x64
v1=1x64
m2=64x64 32x64 32x64
v2=1x64 1x32 1x32
m3=64x64
v3=1x64
v4=1x64
m4=gate_up 128x64 128x64
v5=1x128
v6=1x128
m5=64x128
v7=1x64
v8=1x64
m6=64x64 32x64 32x64
v9=1x64 1x32 1x32
m7=64x64
v10=1x64
v11=1x64
m8=gate_up 128x64 128x64
v12=1x128
v13=1x128
m9=64x128
v14=1x64
v15=1x64
m10=512x64
copy
embed m1
qkv 0: v1 m2 v2 rope0
attend 0
out m3 v3
mlp v4 m4 v5 v6 m5 v7
qkv 1: v8 m6 v9 rope0
attend 1
out m7 v10
mlp v11 m8 v12 v13 m9 v14
logits v15 m10
sample
logprobs
)");
}

TEST(TransformerTest, ATiedGgufModelUsesItsEmbeddingTwice) {
  EXPECT_EQ(Trace("gguf_types/Q8_0.gguf", 0), R"(rope 32 x1 up to 100
m1=320x256
v1=1x256
m2=256x256~64 128x256~64 128x256
m3=256x256
v2=1x256
m4=gate_up 256x256 256x256
m5=256x256
v3=1x256
copy
embed m1
qkv 0: v1 m2 v-1 rope0
attend 0
out m3 v-1
mlp v2 m4 v-1 v-1 m5 v-1
logits v3 m1
)");
}

TEST(TransformerTest, WhatTheBackendRefusesIsAnErrorOfLoad) {
  const auto files = ModelFiles::Open(OwnGoldenPath("models/llama_mha"));
  ASSERT_TRUE(files.ok()) << files.status();
  RecordingBackend picky;
  picky.unsupported_vocab_size = 512;
  EXPECT_EQ(Transformer::Load(**files, picky, 100, WeightQuantization::kNone).status().message(),
            "vocab_size 512");
  EXPECT_EQ(picky.log, "");
  RecordingBackend full;
  full.failing_vector = 2;
  EXPECT_EQ(
      Transformer::Load(**files, full, 100, WeightQuantization::kNone).status().message(),
      (*files)->path() +
          ": packing tensor 'model.layers.0.post_attention_layernorm.weight': no more memory");
  EXPECT_EQ(Transformer::Load(**files, full, 0, WeightQuantization::kNone).status().message(),
            "max_model_len is 0; expected at least 1");
}

// Lines of the trace that begin with `start`.
std::vector<std::string> LinesOf(const std::string& trace, const std::string& start) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(trace, '\n')) {
    if (absl::StartsWith(line, start)) lines.emplace_back(line);
  }
  return lines;
}

TEST(TransformerTest, NormsOfHeadsAndLayersWithoutRopeReachTheBackend) {
  EXPECT_THAT(LinesOf(Trace("models/qwen3", 0), "qkv"),
              testing::ElementsAre("qkv 0: v1 m2 v-1 rope0 q_norm v2 k_norm v3",
                                   "qkv 1: v5 m6 v-1 rope0 q_norm v6 k_norm v7",
                                   "qkv 2: v9 m10 v-1 rope0 q_norm v10 k_norm v11"));
  EXPECT_THAT(LinesOf(Trace("models/smollm3", 0), "qkv"),
              testing::ElementsAre("qkv 0: v1 m2 v-1 rope0", "qkv 1: v3 m6 v-1 rope0",
                                   "qkv 2: v5 m10 v-1 rope-1", "qkv 3: v7 m14 v-1 rope0"));
  EXPECT_THAT(LinesOf(Trace("models/qwen2", 0), "qkv 0"),
              testing::ElementsAre("qkv 0: v1 m2 v2 rope0"));
}

}  // namespace
}  // namespace quire
