#include "engine/model_config.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/testing/golden_data.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

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
       "max_position=512 eps=1e-05 qkv_bias out_bias mlp_bias rope=default theta=10000 bos=1 "
       "eos=[2]"},
      {"llama_rope_linear",
       "llama layers=2 hidden=64 heads=2 kv_heads=1 head_dim=32 intermediate=128 vocab=512 "
       "max_position=512 eps=1e-05 rope=linear theta=10000 factor=4 bos=1 eos=[2]"},
      {"llama_rope_yarn",
       "llama layers=2 hidden=128 heads=2 kv_heads=2 head_dim=64 intermediate=128 vocab=512 "
       "max_position=256 eps=1e-05 rope=yarn theta=10000 factor=4 original_max_position=64 "
       "beta_fast=32 beta_slow=1 attention_factor=1.13863 bos=1 eos=[2]"},
      {"llama_rope_dynamic",
       "llama layers=2 hidden=64 heads=4 kv_heads=4 head_dim=16 intermediate=128 vocab=512 "
       "max_position=64 eps=1e-05 rope=dynamic theta=10000 factor=4 bos=1 eos=[2]"},
      {"mistral_window",
       "mistral layers=3 hidden=128 heads=4 kv_heads=2 head_dim=16 intermediate=160 vocab=512 "
       "max_position=512 eps=1e-05 window=32 in all layers rope=default theta=10000 bos=1 "
       "eos=[2]"},
      {"qwen2",
       "qwen2 layers=3 hidden=64 heads=4 kv_heads=2 head_dim=16 intermediate=128 vocab=512 "
       "max_position=512 eps=1e-06 qkv_bias rope=default theta=1e+06 bos=1 eos=[2]"},
      {"qwen3",
       "qwen3 layers=3 hidden=64 heads=4 kv_heads=2 head_dim=32 intermediate=128 vocab=512 "
       "max_position=512 eps=1e-06 qk_norm rope=default theta=1e+06 bos=1 eos=[2]"},
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
            "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, "
            "SmolLM3ForCausalLM");
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

TEST(ModelConfigTest, WhatNoFamilyHasIsRefused) {
  EXPECT_EQ(ReadWith("hidden_act", "gelu"), "hidden_act 'gelu' is not supported; expected 'silu'");
  EXPECT_EQ(ReadWith("partial_rotary_factor", 0.5),
            "'partial_rotary_factor' other than 1 is not supported");
  EXPECT_EQ(ReadWith("layer_types", {"full_attention", "sliding_attention"}),
            "'layer_types' has 'sliding_attention', but the family or its other keys give no "
            "window; expected 'full_attention' only");
  EXPECT_EQ(ReadWith("layer_types", {"full_attention", "linear_attention"}),
            "'layer_types' has 'linear_attention' for layer 1; expected \"sliding_attention\" or "
            "\"full_attention\"");
  EXPECT_EQ(ReadWith("layer_types", {"full_attention"}),
            "'layer_types' is not an array of num_hidden_layers = 2 elements");
  EXPECT_THAT(ReadWith("layer_types", {"full_attention", "full_attention"}),
              testing::StartsWith("llama layers=2"));
}

TEST(ModelConfigTest, QuantisedCheckpointsAreRefusedByTheirMethodButForFp8) {
  for (const char* method : {"awq", "gptq", "bitsandbytes", "compressed-tensors", "mxfp4"}) {
    EXPECT_EQ(ReadWith("quantization_config", {{"quant_method", method}}),
              std::string("quantization_config: weights quantised by '") + method +
                  "' are not supported; serve the model's unquantised or FP8 (quant_method 'fp8') "
                  "weights, or a GGUF file of it");
  }
  EXPECT_THAT(ReadWith("compression_config", {{"quant_method", "sparseml"}}),
              HasSubstr("compression_config: weights quantised by 'sparseml' are not supported"));
  json config = Plain();
  config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {64, 32}}};
  auto read = ParseModelConfig(config.dump(), "config.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->fp8_block_rows, 64);
  EXPECT_EQ(read->fp8_block_cols, 32);
  config["quantization_config"].erase("weight_block_size");
  read = ParseModelConfig(config.dump(), "config.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->fp8_block_rows, 128);
  EXPECT_EQ(
      ReadWith("quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 0}}}),
      "quantization_config: 'weight_block_size' is not an array of two sizes from 1 to 2^20");
  EXPECT_EQ(ReadWith("quantization_config", "fp8"), "quantization_config: expected a JSON object");
}

json OfFamily(const char* architecture, int num_layers) {
  json config = Plain();
  config["architectures"] = {architecture};
  config["num_hidden_layers"] = num_layers;
  return config;
}

// What transformers' configuration classes make of the same keys.
TEST(ModelConfigTest, MistralHasOneWindowUnlessItIsNull) {
  json config = OfFamily("MistralForCausalLM", 3);
  EXPECT_THAT(Read(config), HasSubstr(" window=4096 in all layers rope"));
  config["sliding_window"] = 32;
  EXPECT_THAT(Read(config), HasSubstr(" window=32 in all layers rope"));
  config["sliding_window"] = nullptr;
  EXPECT_THAT(Read(config), Not(HasSubstr("window")));
  config["sliding_window"] = 0;
  EXPECT_EQ(Read(config), "sliding_window is 0; expected at least 1");
  config["sliding_window"] = -5;
  EXPECT_EQ(Read(config), "sliding_window is -5; expected at least 1");
}

TEST(ModelConfigTest, QwenHasAWindowInTheUpperLayersOrThoseThatAreListed) {
  for (const char* architecture : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    json config = OfFamily(architecture, 4);
    config["sliding_window"] = 32;
    config["max_window_layers"] = 3;
    EXPECT_THAT(Read(config), Not(HasSubstr("window")));
    config["use_sliding_window"] = true;
    EXPECT_THAT(Read(config), HasSubstr(" window=32 in layers 3 rope"));
    config["max_window_layers"] = 0;
    EXPECT_THAT(Read(config), HasSubstr(" window=32 in all layers rope"));
    config["max_window_layers"] = 4;
    EXPECT_THAT(Read(config), Not(HasSubstr("window")));
    config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention",
                             "sliding_attention"};
    EXPECT_THAT(Read(config), HasSubstr(" window=32 in layers 0, 2-3 rope"));
    config.erase("sliding_window");
    EXPECT_THAT(Read(config), HasSubstr(" window=4096 in layers 0, 2-3 rope"));
    config["sliding_window"] = nullptr;
    EXPECT_THAT(Read(config), HasSubstr("give no window"));
  }
}

TEST(ModelConfigTest, SmolLm3LeavesRopeOutOfEveryFourthLayerOrThoseThatAreListed) {
  json config = OfFamily("SmolLM3ForCausalLM", 9);
  EXPECT_THAT(Read(config), HasSubstr(" tied no_rope=3, 7 rope=default theta=2e+06"));
  config["no_rope_layer_interval"] = 2;
  config["tie_word_embeddings"] = false;
  EXPECT_THAT(Read(config), HasSubstr(" eps=1e-05 no_rope=1, 3, 5, 7 rope"));
  config["no_rope_layers"] = {0, 1, 1, 0, 0, 0, 1, 1, 1};
  EXPECT_THAT(Read(config), HasSubstr(" no_rope=0, 3-5 rope"));
  config["use_sliding_window"] = true;
  EXPECT_THAT(Read(config), Not(HasSubstr("window")));
  config["sliding_window"] = 64;
  EXPECT_THAT(Read(config), HasSubstr(" window=64 in layers 0, 3-5 no_rope=0, 3-5 rope"));
  config["no_rope_layers"] = {0, 1};
  EXPECT_EQ(Read(config), "'no_rope_layers' is not an array of num_hidden_layers = 9 elements");
  config.erase("no_rope_layers");
  config["no_rope_layer_interval"] = 0;
  EXPECT_EQ(Read(config), "no_rope_layer_interval is 0; expected at least 1");
}

TEST(ModelConfigTest, BiasesAndNormsFollowFromFamilyAndKeys) {
  EXPECT_THAT(Read(OfFamily("Qwen2ForCausalLM", 2)), HasSubstr("eps=1e-05 qkv_bias rope"));
  json qwen3 = OfFamily("Qwen3ForCausalLM", 2);
  EXPECT_THAT(Read(qwen3), HasSubstr("eps=1e-05 qk_norm rope"));
  qwen3["attention_bias"] = true;
  EXPECT_THAT(Read(qwen3), HasSubstr("eps=1e-05 qkv_bias out_bias qk_norm rope"));
  json mistral = OfFamily("MistralForCausalLM", 2);
  mistral["attention_bias"] = true;  // not one of its keys
  EXPECT_THAT(Read(mistral), HasSubstr("eps=1e-05 window"));
}

TEST(ModelConfigTest, EveryPartSaysWhichKeyItCameFrom) {
  const auto config = ReadModelConfig(OwnGoldenPath("models/qwen3"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->sources.at("rope"), "rope_parameters");
  EXPECT_EQ(config->sources.at("qk_norm"), "what the family always has");
  EXPECT_EQ(config->sources.at("tied"), "tie_word_embeddings");
  const auto windowed = ReadModelConfig(OwnGoldenPath("models/mistral_window"));
  ASSERT_TRUE(windowed.ok()) << windowed.status();
  EXPECT_EQ(windowed->sources.at("window"), "sliding_window");
  EXPECT_EQ(windowed->sources.at("rope"), "rope_theta");
}

TEST(ModelConfigTest, DynamicRopeStretchesTheLongestSequence) {
  ModelConfig config;
  config.max_position_embeddings = 64;
  EXPECT_EQ(LongestModelLen(config), 64);
  config.rope.factor = 2.5;
  config.rope.kind = RopeKind::kLinear;
  EXPECT_EQ(LongestModelLen(config), 64);
  config.rope.kind = RopeKind::kDynamic;
  EXPECT_EQ(LongestModelLen(config), 160);
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
  const auto read = [](const std::string& text) {
    return std::string(ParseModelConfig(text, "config.json").status().message());
  };
  EXPECT_THAT(read(""), HasSubstr("config.json: not valid JSON at byte"));
  // What is quoted of the file is short and printable.
  EXPECT_THAT(read("{\"\x1b[2J\xff"), testing::MatchesRegex("config.json: not valid JSON[ -~]*"));
  EXPECT_LT(read("{\"" + std::string(100'000, 'x')).size(), 500u);
  EXPECT_EQ(read("[]"), "config.json: expected a JSON object");
  EXPECT_EQ(read(R"({"a": 1, "a": 2})"), "config.json: the key 'a' appears twice in one object");
  EXPECT_THAT(read("{}"), HasSubstr("the architecture '' is not supported"));
}

}  // namespace
}  // namespace quire
