// FP8 checkpoints, by closed form: a model whose matrices are E4M3 with scales equals, bit for bit,
// the one whose matrices are the products in fp32.
#include <cmath>
#include <random>

#include "gtest/gtest.h"

#include "engine/model_files.h"
#include "engine/weights.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/testing/model_runner.h"
#include "tests/testing/safetensors_bytes.h"
#include "tests/testing/temp_dir.h"

namespace quire {
namespace {

// 160 and 192 are no multiples of the blocks of 128.
constexpr char kConfig[] = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 96,
  "hidden_size": 160, "intermediate_size": 192, "num_hidden_layers": 1, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 64,
  "tie_word_embeddings": true, "quantization_config": {"quant_method": "fp8",
  "activation_scheme": "dynamic", "weight_block_size": [128, 128]}})";

// The value of an E4M3 number that is no NaN: sign, exponent of 4 bits, mantissa of 3.
float ValueOf(uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const float mantissa = static_cast<float>(bits & 7) / 8;
  const float magnitude =
      exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
  return bits >> 7 ? -magnitude : magnitude;
}

enum class Scaling { kTensor, kRow, kBlock };

// Builds the two models from the same random bytes.
class TwoModels {
 public:
  explicit TwoModels(Scaling scaling) : scaling_(scaling) {
    const std::string layer = "model.layers.0.";
    AddPlain("model.embed_tokens.weight", {96, 160});
    AddPlain("model.norm.weight", {160});
    AddPlain(layer + "input_layernorm.weight", {160});
    AddPlain(layer + "post_attention_layernorm.weight", {160});
    AddMatrix(layer + "self_attn.q_proj", 128, 160);
    AddMatrix(layer + "self_attn.k_proj", 64, 160);
    AddMatrix(layer + "self_attn.v_proj", 64, 160);
    AddMatrix(layer + "self_attn.o_proj", 160, 128);
    AddMatrix(layer + "mlp.gate_proj", 192, 160);
    AddMatrix(layer + "mlp.up_proj", 192, 160);
    AddMatrix(layer + "mlp.down_proj", 160, 192);
    for (const TempDir* dir : {&fp8_dir_, &plain_dir_}) dir->Write("config.json", kConfig);
    fp8_dir_.Write("model.safetensors", fp8_.Build());
    plain_dir_.Write("model.safetensors", plain_.Build());
  }
  const std::string& fp8() const { return fp8_dir_.path(); }
  const std::string& plain() const { return plain_dir_.path(); }

 private:
  void AddPlain(const std::string& name, const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t dim : shape) count *= dim;
    std::vector<float> values(count);
    for (float& value : values) value = 0.5f + std::normal_distribution<float>()(random_);
    for (SafetensorsBytes* file : {&fp8_, &plain_}) file->Tensor(name, "F32", shape, values);
  }
  // Scales as checkpoints of each kind have them: one F32, a column of BF16, a matrix of F32.
  void AddMatrix(const std::string& name, int64_t rows, int64_t cols) {
    const int64_t block_rows = scaling_ == Scaling::kTensor ? rows
                               : scaling_ == Scaling::kRow  ? 1
                                                            : 128;
    const int64_t block_cols = scaling_ == Scaling::kBlock ? 128 : cols;
    const int64_t scale_rows = (rows + block_rows - 1) / block_rows;
    const int64_t scale_cols = (cols + block_cols - 1) / block_cols;
    std::vector<float> scales;
    std::vector<uint16_t> short_scales;
    for (int64_t i = 0; i < scale_rows * scale_cols; ++i) {
      const float scale = 0.0007f * static_cast<float>(random_() % 16 + 1);
      short_scales.push_back(RneBf16(scale));
      scales.push_back(scaling_ == Scaling::kRow ? FromBf16(short_scales.back()) : scale);
    }
    std::vector<uint8_t> bytes;
    std::vector<float> products;
    for (int64_t i = 0; i < rows * cols; ++i) {
      const auto byte = static_cast<uint8_t>(random_());
      bytes.push_back((byte & 0x7f) == 0x7f ? 0x00 : byte);  // no NaNs
      const int64_t block = i / cols / block_rows * scale_cols + i % cols / block_cols;
      products.push_back(ValueOf(bytes.back()) * scales[block]);
    }
    fp8_.Tensor(name + ".weight", "F8_E4M3", {rows, cols}, bytes);
    plain_.Tensor(name + ".weight", "F32", {rows, cols}, products);
    switch (scaling_) {
      case Scaling::kTensor:
        fp8_.Tensor(name + ".weight_scale", "F32", {}, scales);
        fp8_.Tensor(name + ".input_scale", "F32", {}, std::vector<float>{2.0f});
        break;
      case Scaling::kRow:
        fp8_.Tensor(name + ".weight_scale", "BF16", {rows, 1}, short_scales);
        break;
      case Scaling::kBlock:
        fp8_.Tensor(name + ".weight_scale_inv", "F32", {scale_rows, scale_cols}, scales);
        break;
    }
  }

  const Scaling scaling_;
  std::mt19937 random_{3};
  SafetensorsBytes fp8_;
  SafetensorsBytes plain_;
  const TempDir fp8_dir_;
  const TempDir plain_dir_;
};

std::vector<float> LogitsOf(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({});
  EXPECT_TRUE(backend.ok()) << backend.status();
  auto runner = ModelRunner::Load(path, *std::move(backend), 64);
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return {};
  const std::vector<int32_t> tokens = {5, 90, 17, 3, 3, 60, 1, 42};
  const auto logits = (*runner)->Step(tokens);
  EXPECT_TRUE(logits.ok()) << logits.status();
  return std::vector<float>(logits->begin(), logits->end());
}

TEST(Fp8Test, ModelsEqualThoseOfTheProductsWhateverSharesAScale) {
  for (const Scaling scaling : {Scaling::kTensor, Scaling::kRow, Scaling::kBlock}) {
    const TwoModels models(scaling);
    const std::vector<float> found = LogitsOf(models.fp8());
    ASSERT_EQ(found.size(), 8u * 96);
    EXPECT_EQ(found, LogitsOf(models.plain())) << static_cast<int>(scaling);
    float most = 0;
    for (const float logit : found) most = std::max(most, std::abs(logit));
    EXPECT_GT(most, 1) << "there is something to compare";
  }
}

// What is wrong with a file of one weight "w.weight" [2, 3] and `scales`.
std::string LoadWith(const std::string& name, const std::string& dtype,
                     const std::vector<int64_t>& shape, const std::string& bytes) {
  const TempDir dir;
  dir.Write("config.json", kConfig);
  SafetensorsBytes file;
  file.Tensor("w.weight", "F8_E4M3", {2, 3}, std::string(6, '\x38'));
  if (!name.empty()) file.Tensor(name, dtype, shape, bytes);
  dir.Write("model.safetensors", file.Build());
  const auto files = ModelFiles::Open(dir.path());
  const std::string message(files.status().message());
  return files.ok() ? "ok" : message.substr(dir.path().size() + 2);
}

std::string Floats(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

TEST(Fp8Test, ScalesThatAreMissingOrDoNotFitAreRefusedByName) {
  EXPECT_EQ(LoadWith("w.weight_scale", "F32", {}, Floats({2})), "ok");
  EXPECT_EQ(LoadWith("w.weight_scale", "F32", {2}, Floats({2, 2})), "ok");
  EXPECT_EQ(LoadWith("w.weight_scale_inv", "F32", {1, 1}, Floats({2})), "ok");
  EXPECT_EQ(LoadWith("", "", {}, ""),
            "tensor 'w.weight' is F8_E4M3, but there is neither 'w.weight_scale' nor "
            "'w.weight_scale_inv'");
  EXPECT_EQ(LoadWith("w.weight_scale", "F32", {3}, Floats({1, 1, 1})),
            "tensor 'w.weight_scale' of shape [3] of F32, the scales of 'w.weight', fits neither "
            "one scale, nor one a row (2), nor one for each block of 128 x 128 [1, 1]");
  EXPECT_EQ(LoadWith("w.weight_scale", "F8_E4M3", {}, "\x38"),
            "tensor 'w.weight_scale' of shape [] of F8_E4M3, the scales of 'w.weight', is of "
            "another type than F32, BF16 or F16");
  EXPECT_EQ(LoadWith("w.weight_scale", "F32", {2}, Floats({1, INFINITY})),
            "tensor 'w.weight_scale' of shape [2] of F32, the scales of 'w.weight', has inf as "
            "element 1; expected a finite number");
}

}  // namespace
}  // namespace quire
