// Every family as GGUF: the golden models, rewritten with GGUF's names, keys and order of rows,
// must give the bits that they give as Hugging Face folders.
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "kernels/cpu/cpu_backend.h"
#include "tests/testing/gguf_bytes.h"
#include "tests/testing/golden_data.h"
#include "tests/testing/model_runner.h"

namespace quire {
namespace {

struct Case {
  const char* model;
  const char* architecture;  // in GGUF
  bool interleaved;          // q and k as llama.cpp's converter orders their rows
};

std::string GgufName(const std::string& hf_name) {
  return absl::StrReplaceAll(hf_name, {{"model.layers.", "blk."},
                                       {"model.embed_tokens", "token_embd"},
                                       {"model.norm", "output_norm"},
                                       {"lm_head", "output"},
                                       {"input_layernorm", "attn_norm"},
                                       {"post_attention_layernorm", "ffn_norm"},
                                       {"self_attn.q_proj", "attn_q"},
                                       {"self_attn.k_proj", "attn_k"},
                                       {"self_attn.v_proj", "attn_v"},
                                       {"self_attn.o_proj", "attn_output"},
                                       {"self_attn.q_norm", "attn_q_norm"},
                                       {"self_attn.k_norm", "attn_k_norm"},
                                       {"mlp.gate_proj", "ffn_gate"},
                                       {"mlp.up_proj", "ffn_up"},
                                       {"mlp.down_proj", "ffn_down"}});
}

// Rows of every head from halves to pairs: row i to 2i, row i + head_dim / 2 to 2i + 1.
std::string Interleave(const std::string& bytes, int64_t rows, int head_dim) {
  const size_t row_bytes = bytes.size() / rows;
  std::string result = bytes;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t within = row % head_dim;
    const int64_t half = head_dim / 2;
    const int64_t target = row - within + (within < half ? 2 * within : 2 * (within - half) + 1);
    result.replace(target * row_bytes, row_bytes, bytes, row * row_bytes, row_bytes);
  }
  return result;
}

GgufBytes MetadataOf(const ModelConfig& config, const std::string& architecture) {
  const auto key = [&](const char* suffix) { return absl::StrCat(architecture, ".", suffix); };
  GgufBytes gguf;
  gguf.String("general.architecture", architecture)
      .U32(key("block_count"), config.num_layers)
      .U32(key("context_length"), config.max_position_embeddings)
      .U32(key("embedding_length"), config.hidden_size)
      .U32(key("feed_forward_length"), config.intermediate_size)
      .U32(key("attention.head_count"), config.num_heads)
      .U32(key("attention.head_count_kv"), config.num_kv_heads)
      .U32(key("attention.key_length"), config.head_dim)
      .U32(key("attention.value_length"), config.head_dim)
      .F32(key("attention.layer_norm_rms_epsilon"), static_cast<float>(config.norm_eps))
      .F32(key("rope.freq_base"), static_cast<float>(config.rope.theta));
  if (!config.layer_windows.empty()) {
    gguf.U32(key("attention.sliding_window"), config.layer_windows[0]);
  }
  return gguf;
}

std::string Rewrite(const ModelFiles& files, const Case& test) {
  constexpr uint32_t kBf16 = 30;
  constexpr uint64_t kAlignment = 32;
  GgufBytes gguf = MetadataOf(files.config(), test.architecture);
  uint64_t offset = 0;
  for (const FileTensor* tensor : files.tensors()) {
    EXPECT_EQ(tensor->view.dtype, DType::kBF16);
    std::string bytes(reinterpret_cast<const char*>(tensor->view.data), tensor->num_bytes);
    if (test.interleaved && (absl::StrContains(tensor->name, "q_proj.weight") ||
                             absl::StrContains(tensor->name, "k_proj.weight"))) {
      bytes = Interleave(bytes, tensor->view.rows, files.config().head_dim);
    }
    gguf.Tensor(GgufName(tensor->name), {tensor->shape.rbegin(), tensor->shape.rend()}, kBf16,
                offset);
    bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
    gguf.Data(bytes);
    offset += bytes.size();
  }
  return gguf.Build();
}

std::vector<float> LogitsOf(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({});
  EXPECT_TRUE(backend.ok()) << backend.status();
  auto runner = ModelRunner::Load(path, *std::move(backend), 64);
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return {};
  std::vector<int32_t> tokens;
  for (int i = 0; i < 60; ++i) tokens.push_back((i * 37 + i * i) % 512);
  const auto logits = (*runner)->Step(tokens);
  EXPECT_TRUE(logits.ok()) << logits.status();
  return std::vector<float>(logits->begin(), logits->end());
}

class GgufFamiliesTest : public testing::TestWithParam<Case> {};

TEST_P(GgufFamiliesTest, GiveTheBitsOfTheFolder) {
  const TempDir dir;
  const std::string source = OwnGoldenPath(absl::StrCat("models/", GetParam().model));
  std::filesystem::copy(source, dir.Path("hf"), std::filesystem::copy_options::recursive);
  // GGUF has no key for layers without rope: every fourth of smollm3's.
  nlohmann::json config = nlohmann::json::parse(ReadAll(source + "/config.json"), nullptr, false);
  config.erase("no_rope_layers");
  config.erase("no_rope_layer_interval");
  dir.Write("hf/config.json", config.dump());

  const auto files = ModelFiles::Open(dir.Path("hf"));
  ASSERT_TRUE(files.ok()) << files.status();
  const std::string gguf = dir.Write("model.gguf", Rewrite(**files, GetParam()));
  const std::vector<float> found = LogitsOf(gguf);
  ASSERT_EQ(found.size(), 60u * 512);
  EXPECT_EQ(found, LogitsOf(dir.Path("hf")));
}

INSTANTIATE_TEST_SUITE_P(Models, GgufFamiliesTest,
                         testing::Values(Case{"llama_mha", "llama", true},
                                         Case{"mistral_window", "llama", true},
                                         Case{"qwen2", "qwen2", false},
                                         Case{"qwen3", "qwen3", false},
                                         Case{"smollm3", "smollm3", true}),
                         [](const auto& test) { return test.param.model; });

}  // namespace
}  // namespace quire
