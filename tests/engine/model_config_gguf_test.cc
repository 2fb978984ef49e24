#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/model_config.h"
#include "tests/testing/gguf_bytes.h"
#include "tests/testing/temp_dir.h"

namespace quire {
namespace {

using testing::HasSubstr;

GgufBytes PlainGguf() {
  GgufBytes bytes;
  bytes.String("general.architecture", "llama")
      .U32("llama.block_count", 2)
      .U32("llama.context_length", 512)
      .U32("llama.embedding_length", 64)
      .U32("llama.feed_forward_length", 128)
      .U32("llama.attention.head_count", 4)
      .F32("llama.attention.layer_norm_rms_epsilon", 0.5f);
  return bytes;
}

std::string Read(const GgufBytes& bytes) {
  const TempDir dir;
  const std::string path = dir.Write("x.gguf", bytes.Build());
  const auto config = ReadModelConfig(path);
  if (config.ok()) return ToText(*config);
  const std::string message(config.status().message());
  EXPECT_EQ(message.substr(0, path.size() + 2), path + ": ");
  return message.substr(path.size() + 2);
}

TEST(ModelConfigTest, GgufMetadataSaysTheSame) {
  GgufBytes bytes = PlainGguf();
  bytes.U32("llama.vocab_size", 300)
      .U32("llama.attention.head_count_kv", 2)
      .U32("llama.rope.dimension_count", 16)
      .F32("llama.rope.freq_base", 500000)
      .U32("tokenizer.ggml.bos_token_id", 1)
      .U32("tokenizer.ggml.eos_token_id", 9)
      .U32("tokenizer.ggml.eot_token_id", 5);
  EXPECT_EQ(Read(bytes),
            "llama layers=2 hidden=64 heads=4 kv_heads=2 head_dim=16 intermediate=128 vocab=300 "
            "max_position=512 eps=0.5 tied rope=default theta=500000 bos=1 eos=[5,9]");
  bytes.String("llama.rope.scaling.type", "yarn")
      .F32("llama.rope.scaling.factor", 4)
      .U32("llama.rope.scaling.original_context_length", 128);
  EXPECT_THAT(Read(bytes), HasSubstr("rope=yarn theta=500000 factor=4 original_max_position=128 "
                                     "beta_fast=32 beta_slow=1 attention_factor=1.13863"));
}

GgufBytes PlainGgufOf(const std::string& architecture, uint32_t num_layers) {
  GgufBytes bytes;
  bytes.String("general.architecture", architecture)
      .U32(architecture + ".block_count", num_layers)
      .U32(architecture + ".context_length", 512)
      .U32(architecture + ".embedding_length", 64)
      .U32(architecture + ".feed_forward_length", 128)
      .U32(architecture + ".attention.head_count", 4)
      .U32(architecture + ".attention.key_length", 32)
      .U32(architecture + ".attention.value_length", 32)
      .F32(architecture + ".attention.layer_norm_rms_epsilon", 0.5f)
      .U32(architecture + ".vocab_size", 300);
  return bytes;
}

TEST(ModelConfigTest, GgufHasOtherFamiliesToo) {
  EXPECT_EQ(Read(PlainGgufOf("qwen3", 2).F32("qwen3.rope.freq_base", 1e6f)),
            "qwen3 layers=2 hidden=64 heads=4 kv_heads=4 head_dim=32 intermediate=128 vocab=300 "
            "max_position=512 eps=0.5 tied qk_norm rope=default theta=1e+06 eos=[]");
  EXPECT_THAT(Read(PlainGgufOf("qwen2", 2)), HasSubstr("qwen2 layers=2"));
  EXPECT_THAT(Read(PlainGgufOf("smollm3", 8)), HasSubstr(" tied no_rope=3, 7 rope"));
  EXPECT_THAT(Read(PlainGgufOf("llama", 3).U32("llama.attention.sliding_window", 64)),
              HasSubstr(" window=64 in all layers rope"));
  EXPECT_THAT(Read(PlainGgufOf("llama", 3)
                       .Entry("llama.attention.sliding_window", GgufBytes::kI32,
                              GgufBytes::Raw(int32_t{-1}))),
              HasSubstr("attention.sliding_window' is -1; expected 0 to"));
  EXPECT_EQ(Read(PlainGgufOf("llama", 3)
                     .U32("llama.attention.sliding_window", 64)
                     .U32("llama.attention.sliding_window_pattern", 2)),
            "llama.attention.sliding_window_pattern is not supported; expected one window for all "
            "layers");
}

TEST(ModelConfigTest, GgufYarnHasItsOwnKeys) {
  EXPECT_THAT(Read(PlainGgufOf("qwen2", 2)
                       .String("qwen2.rope.scaling.type", "yarn")
                       .F32("qwen2.rope.scaling.factor", 4)
                       .F32("qwen2.rope.scaling.attn_factor", 0.5f)
                       .F32("qwen2.rope.scaling.yarn_beta_fast", 16)
                       .F32("qwen2.rope.scaling.yarn_beta_slow", 2)),
              HasSubstr("rope=yarn theta=10000 factor=4 original_max_position=512 beta_fast=16 "
                        "beta_slow=2 attention_factor=0.569315 "));
}

TEST(ModelConfigTest, GgufMetadataIsChecked) {
  EXPECT_EQ(Read(GgufBytes()), "the metadata key 'general.architecture' is missing");
  EXPECT_EQ(
      Read(GgufBytes().String("general.architecture", "mamba")),
      "the architecture 'mamba' is not supported; expected one of llama, qwen2, qwen3, smollm3");
  EXPECT_EQ(Read(GgufBytes().String("general.architecture", "llama")),
            "the metadata key 'llama.block_count' is missing");
  EXPECT_EQ(Read(PlainGguf()), "vocab_size is 0; expected 1 to 16777216");
  EXPECT_EQ(Read(PlainGguf().U32("llama.expert_count", 8)),
            "llama.expert_count is 8; mixtures of experts are not supported");
  EXPECT_EQ(Read(PlainGguf().U32("llama.rope.dimension_count", 8)),
            "llama.rope.dimension_count is 8; expected head_dim = 16");
  EXPECT_EQ(Read(PlainGguf().U32("llama.vocab_size", 4000000000u)),
            "the metadata key 'llama.vocab_size' is 4000000000; expected 0 to 2^31 - 1");
  EXPECT_EQ(Read(PlainGguf().String("llama.rope.scaling.type", "longrope")),
            "llama.rope.scaling.type is 'longrope'; expected one of none, linear, yarn");
}

}  // namespace
}  // namespace quire
