#include "engine/model_config.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "engine/gguf.h"
#include "tests/testing/gguf_bytes.h"
#include "tests/testing/golden_data.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json Plain() {
  return json::parse(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-05, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2})");
}

// The configuration as text, or the message without the path.
std::string Read(const json& config) {
  const auto parsed = ParseModelConfig(config.dump(), "dir/config.json");
  if (parsed.ok()) return ToText(*parsed);
  const std::string message(parsed.status().message());
  EXPECT_EQ(message.substr(0, 15), "dir/config.json");
  return message.substr(17);
}

std::string ReadWith(const std::string& key, const json& value) {
  json config = Plain();
  config[key] = value;
  return Read(config);
}

TEST(ModelConfigTest, GoldenConfigsReadAsTheyAreWritten) {
  const std::pair<const char*, const char*> expected[] = {
      {"llama_mha",
       "llama layers=3 hidden=64 heads=4 kv_heads=4 head_dim=16 intermediate=176 vocab=512 "
       "max_position=512 eps=1e-05 rope=default theta=10000 bos=1 eos=[2]"},
      {"llama_gqa_llama3",
       "llama layers=2 hidden=128 heads=4 kv_heads=2 head_dim=32 intermediate=192 vocab=512 "
       "max_position=512 eps=1e-05 tied rope=llama3 theta=500000 factor=8 original_max_position=64 "
       "low_freq=1 high_freq=4 bos=1 eos=[2]"},
      {"llama_bias",
       "llama layers=2 hidden=64 heads=4 kv_heads=2 head_dim=16 intermediate=128 vocab=512 "
       "max_position=512 eps=1e-05 attention_bias mlp_bias rope=default theta=10000 bos=1 eos=[2]"},
      {"llama_rope_linear",
       "llama layers=2 hidden=64 heads=2 kv_heads=1 head_dim=32 intermediate=128 vocab=512 "
       "max_position=512 eps=1e-05 rope=linear theta=10000 factor=4 bos=1 eos=[2]"},
      {"llama_rope_yarn",
       "llama layers=2 hidden=128 heads=2 kv_heads=2 head_dim=64 intermediate=128 vocab=512 "
       "max_position=256 eps=1e-05 rope=yarn theta=10000 factor=4 original_max_position=64 "
       "beta_fast=32 beta_slow=1 attention_factor=1.13863 bos=1 eos=[2]"},
  };
  for (const auto& [name, text] : expected) {
    const auto config = ReadModelConfig(OwnGoldenPath(std::string("models/") + name));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(ToText(*config), text) << name;
  }
}

TEST(ModelConfigTest, OldAndNewSpellingsMeanTheSame) {
  json old_spelling = Plain();
  old_spelling["rope_theta"] = 500000;
  old_spelling["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  old_spelling["torch_dtype"] = "bfloat16";
  json new_spelling = Plain();
  new_spelling["rope_parameters"] = {
      {"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 500000}};
  new_spelling["dtype"] = "bfloat16";
  EXPECT_EQ(Read(old_spelling), Read(new_spelling));
  EXPECT_THAT(Read(old_spelling), HasSubstr("rope=linear theta=500000 factor=2"));
}

TEST(ModelConfigTest, WhatIsMissingOrNullHasTheDefaultsOfTransformers) {
  json config = Plain();
  config.erase("num_key_value_heads");
  config.erase("rms_norm_eps");
  config.erase("architectures");
  config["head_dim"] = nullptr;
  config["rope_scaling"] = nullptr;
  config["eos_token_id"] = json::array({7, 5, 7});
  EXPECT_EQ(Read(config),
            "llama layers=2 hidden=64 heads=4 kv_heads=4 head_dim=16 intermediate=128 vocab=512 "
            "max_position=512 eps=1e-06 rope=default theta=10000 bos=1 eos=[5,7]");
}

TEST(ModelConfigTest, UnknownArchitecturesAreNamedBesideTheSupportedOnes) {
  EXPECT_EQ(ReadWith("architectures", {"MambaForCausalLM"}),
            "the architecture 'MambaForCausalLM' is not supported; expected one of "
            "LlamaForCausalLM");
  EXPECT_EQ(ReadWith("architectures", json::array()),
            "'architectures' is not an array of one string");
  EXPECT_EQ(ReadWith("architectures", "LlamaForCausalLM"),
            "'architectures' is not an array of one string");
}

TEST(ModelConfigTest, AbsurdNumbersAreRefusedWithTheirValue) {
  EXPECT_EQ(ReadWith("hidden_size", 0), "hidden_size is 0; expected 1 to 131072");
  EXPECT_EQ(ReadWith("num_hidden_layers", 2000000000),
            "the number of layers is 2000000000; expected 1 to 1024");
  EXPECT_EQ(ReadWith("num_hidden_layers", -1), "the number of layers is -1; expected 1 to 1024");
  EXPECT_EQ(ReadWith("vocab_size", uint64_t{1} << 40),
            "'vocab_size' is 1099511627776; expected a whole number below 2^31");
  EXPECT_EQ(ReadWith("vocab_size", 512.5),
            "'vocab_size' is 512.5; expected a whole number below 2^31");
  EXPECT_EQ(ReadWith("vocab_size", "512"),
            "'vocab_size' is \"512\"; expected a whole number below 2^31");
  EXPECT_EQ(ReadWith("vocab_size", nullptr), "'vocab_size' is missing; expected a number");
  EXPECT_EQ(ReadWith("num_key_value_heads", 3),
            "4 attention heads cannot share 3 key-value heads; expected a divisor");
  EXPECT_EQ(ReadWith("num_key_value_heads", 0),
            "the number of key-value heads is 0; expected 1 to 1024");
  EXPECT_EQ(ReadWith("num_attention_heads", 0),
            "hidden_size 64 is not a multiple of num_attention_heads 0, and no head_dim is given");
  EXPECT_EQ(ReadWith("head_dim", 15), "head_dim is 15; expected an even number, for rope");
  EXPECT_EQ(ReadWith("rms_norm_eps", 0), "rms_norm_eps is 0; expected above 0 and below 1");
  EXPECT_EQ(ReadWith("rms_norm_eps", "x"), "'rms_norm_eps' is \"x\"; expected a number");
  EXPECT_EQ(ReadWith("eos_token_id", 512),
            "eos_token_id is 512; expected 0 to vocab_size - 1 = 511");
  EXPECT_EQ(ReadWith("eos_token_id", {1, "a"}),
            "'eos_token_id' is [1,\"a\"]; expected a token id, or an array of token ids");
  EXPECT_EQ(ReadWith("bos_token_id", -3), "bos_token_id is -3; expected 0 to vocab_size - 1 = 511");
  EXPECT_EQ(ReadWith("tie_word_embeddings", 1),
            "'tie_word_embeddings' is 1; expected true or false");
}

TEST(ModelConfigTest, WhatLlamaNeverHasIsRefused) {
  EXPECT_EQ(ReadWith("hidden_act", "gelu"), "hidden_act 'gelu' is not supported; expected 'silu'");
  EXPECT_EQ(ReadWith("quantization_config", {{"quant_method", "awq"}}),
            "'quantization_config' is not supported; expected unquantised weights, or a GGUF");
  EXPECT_EQ(ReadWith("partial_rotary_factor", 0.5),
            "'partial_rotary_factor' other than 1 is not supported");
  EXPECT_EQ(ReadWith("layer_types", {"full_attention", "sliding_attention"}),
            "'layer_types' has something other than 'full_attention', which is not supported");
}

TEST(ModelConfigTest, RopeScalingIsChecked) {
  EXPECT_EQ(ReadWith("rope_theta", 0), "rope theta is 0; expected 1 < theta <= 1e15");
  EXPECT_EQ(ReadWith("rope_scaling", "linear"), "rope_scaling: expected a JSON object");
  EXPECT_EQ(ReadWith("rope_scaling", {{"rope_type", "longrope"}, {"factor", 2}}),
            "rope_scaling: the rope type 'longrope' is not supported; expected one of default, "
            "linear, dynamic, llama3, yarn");
  EXPECT_EQ(ReadWith("rope_scaling", {{"rope_type", "linear"}}),
            "rope_scaling: 'factor' is missing for type linear");
  EXPECT_EQ(ReadWith("rope_scaling", {{"rope_type", "linear"}, {"factor", 0.5}}),
            "rope factor is 0.5; expected 1 to 1e6");
  EXPECT_EQ(ReadWith("rope_scaling", {{"rope_type", "llama3"},
                                      {"factor", 8},
                                      {"low_freq_factor", 4},
                                      {"high_freq_factor", 4}}),
            "rope low_freq_factor is 4 and high_freq_factor 4; expected 0 < low < high");
  EXPECT_EQ(ReadWith("rope_scaling",
                     {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 0}}),
            "rope original_max_position_embeddings is 0; expected at least 1");
  EXPECT_THAT(ReadWith("rope_scaling", {{"type", "yarn"},
                                        {"factor", 40},
                                        {"mscale", 0.707},
                                        {"mscale_all_dim", 0.707},
                                        {"beta_fast", 16}}),
              HasSubstr("rope=yarn theta=10000 factor=40 original_max_position=512 beta_fast=16 "
                        "beta_slow=1 attention_factor=1 "));
}

TEST(ModelConfigTest, TextThatIsNoConfigurationIsRefused) {
  const auto read = [](const char* text) {
    return std::string(ParseModelConfig(text, "config.json").status().message());
  };
  EXPECT_THAT(read(""), HasSubstr("config.json: not valid JSON at byte"));
  EXPECT_EQ(read("[]"), "config.json: expected a JSON object");
  EXPECT_EQ(read(R"({"a": 1, "a": 2})"), "config.json: the key 'a' appears twice in one object");
  EXPECT_THAT(read("{}"), HasSubstr("the architecture '' is not supported"));
}

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

TEST(ModelConfigTest, GgufMetadataIsChecked) {
  EXPECT_EQ(Read(GgufBytes()), "the metadata key 'general.architecture' is missing");
  EXPECT_EQ(Read(GgufBytes().String("general.architecture", "mamba")),
            "the architecture 'mamba' is not supported; expected one of llama");
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
