#include "engine/model_files.h"

#include <cstring>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "engine/weights.h"
#include "tests/testing/golden_data.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// "ok", or what is wrong with the model at `path`: its files or its weights.
std::string Load(const std::string& path) {
  const auto files = ModelFiles::Open(path);
  if (!files.ok()) return std::string(files.status().message());
  const auto weights = FindWeights(**files);
  return weights.ok() ? "ok" : std::string(weights.status().message());
}

// A copy of the small good model, to be spoiled.
class SpoiledModel {
 public:
  SpoiledModel() {
    for (const char* name : {"config.json", "model.safetensors"}) {
      files_.Write(name, ReadAll(OwnGoldenPath("bad_files/good_model/") + name));
    }
  }
  const TempDir& files() const { return files_; }
  std::string Load() const { return ::quire::Load(files_.path()).substr(0); }
  void SetConfig(const std::string& key, const json& value) {
    json config = json::parse(ReadAll(files_.Path("config.json")), nullptr, false);
    config[key] = value;
    files_.Write("config.json", config.dump());
  }
  // Replaces text in the header of the weights by text of the same length.
  void ReplaceInHeader(const std::string& from, const std::string& to) {
    ASSERT_EQ(from.size(), to.size());
    std::string bytes = ReadAll(files_.Path("model.safetensors"));
    const size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    files_.Write("model.safetensors", bytes.replace(at, from.size(), to));
  }

 private:
  const TempDir files_;
};

TEST(ModelFilesTest, BadFilesAreRefusedAndGoodOnesLoad) {
  int num_rows = 0;
  for (const json& row : ReadJsonLines(OwnGoldenPath("bad_files/bad.jsonl"))) {
    const std::string file = row["file"];
    if (file == "tokenizer_truncated") continue;  // its weights are good; tests/server reads it
    SCOPED_TRACE(file);
    ++num_rows;
    const std::string path = OwnGoldenPath("bad_files/" + file);
    std::string found;
    if (file.ends_with(".safetensors")) {
      const auto opened = SafetensorsFile::Open(path);
      found = opened.ok() ? "ok" : std::string(opened.status().message());
    } else {
      found = Load(path);
    }
    if (row["must"] == "load") {
      EXPECT_EQ(found, "ok");
    } else {
      EXPECT_THAT(found, HasSubstr(file)) << row["reason"];
    }
  }
  EXPECT_EQ(num_rows, 16);
}

TEST(ModelFilesTest, GoldenModelsLoad) {
  for (const char* name : {"llama_mha", "llama_gqa_llama3", "llama_bias", "llama_rope_linear",
                           "llama_rope_yarn", "llama_rope_dynamic", "mistral_window", "qwen2",
                           "qwen2_mixed_window", "qwen3", "smollm3"}) {
    EXPECT_EQ(Load(OwnGoldenPath(std::string("models/") + name)), "ok");
  }
  for (const char* name : {"F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K",
                           "Q6_K", "mixed_q4_k_m"}) {
    EXPECT_EQ(Load(OwnGoldenPath(std::string("gguf_types/") + name + ".gguf")), "ok");
  }
}

TEST(ModelFilesTest, ShardsAreOneModel) {
  const auto files = ModelFiles::Open(OwnGoldenPath("models/llama_mha"));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ((*files)->total_bytes(), 2 * 216512);
  EXPECT_EQ((*files)->gguf(), nullptr);
  EXPECT_EQ((*files)->directory(), OwnGoldenPath("models/llama_mha"));
  EXPECT_NE((*files)->FindTensor("lm_head.weight"), nullptr);
  EXPECT_EQ((*files)->FindTensor("nothing"), nullptr);
}

TEST(ModelFilesTest, ASnapshotOfTheHubIsLinks) {
  SpoiledModel model;
  const TempDir hub;
  std::filesystem::create_directories(hub.Path("snapshots/main"));
  std::filesystem::create_directories(hub.Path("blobs"));
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::rename(model.files().Path(name), hub.Path(std::string("blobs/x") + name));
    std::filesystem::create_symlink(std::string("../../blobs/x") + name,
                                    hub.Path(std::string("snapshots/main/") + name));
  }
  EXPECT_EQ(Load(hub.Path("snapshots/main")), "ok");
}

TEST(ModelFilesTest, PlacesWithoutAModelAreNamed) {
  const TempDir dir;
  EXPECT_EQ(Load(dir.Path("gone")),
            dir.Path("gone") + ": cannot open the model: No such file or directory");
  EXPECT_EQ(Load(dir.path()),
            dir.Path("config.json") +
                ": no such file; expected a Hugging Face model directory or a .gguf file");
  dir.Write("config.json", ReadAll(OwnGoldenPath("models/llama_mha/config.json")));
  EXPECT_EQ(Load(dir.path()), dir.path() +
                                  ": has no weights; expected model.safetensors or "
                                  "model.safetensors.index.json");
  EXPECT_TRUE(ReadModelConfig(dir.path()).ok());
}

TEST(ModelFilesTest, AnIndexThatLiesIsRefused) {
  SpoiledModel model;
  const auto with_map = [&](const json& map) {
    model.files().Write("model.safetensors.index.json", json{{"weight_map", map}}.dump());
    const std::string message = model.Load();
    const std::string prefix = model.files().path() + "/";
    return message.substr(message.starts_with(prefix) ? prefix.size() : 0);
  };
  const auto files = ModelFiles::Open(model.files().path());
  ASSERT_TRUE(files.ok()) << files.status();
  json map;
  for (const FileTensor* tensor : (*files)->tensors()) map[tensor->name] = "model.safetensors";
  EXPECT_EQ(with_map(map), "ok");
  json changed = map;
  changed["model.norm.weight"] = "../model.safetensors";
  EXPECT_EQ(with_map(changed),
            "model.safetensors.index.json: tensor 'model.norm.weight' is in "
            "'../model.safetensors'; expected the name of a file in the same directory");
  changed["model.norm.weight"] = "a\x7fz.safetensors";
  EXPECT_EQ(with_map(changed),
            "model.safetensors.index.json: tensor 'model.norm.weight' is in "
            "'a\\x7fz.safetensors'; expected the name of a file in the same directory");
  changed["model.norm.weight"] = 7;
  EXPECT_THAT(with_map(changed), HasSubstr("is in something that is not a string"));
  changed["model.norm.weight"] = "gone.safetensors";
  EXPECT_EQ(with_map(changed), "gone.safetensors: cannot open: No such file or directory");
  changed.erase("model.norm.weight");
  EXPECT_THAT(with_map(changed), HasSubstr("tensor 'model.norm.weight' of "));
  changed = map;
  changed["extra"] = "model.safetensors";
  EXPECT_EQ(with_map(changed),
            "model.safetensors.index.json: tensor 'extra' is not in 'model.safetensors' as "
            "'weight_map' says");
  EXPECT_EQ(with_map(json::array()), "model.safetensors.index.json: has no object 'weight_map'");
}

TEST(ModelFilesTest, GenerationDefaultsAreOptionalAndChecked) {
  SpoiledModel model;
  const auto with = [&](const char* text) {
    model.files().Write("generation_config.json", text);
    return ModelFiles::Open(model.files().path());
  };
  auto files = ModelFiles::Open(model.files().path());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ((*files)->generation_defaults().temperature, std::nullopt);
  files = with(R"({"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": null,
                   "repetition_penalty": 1.1, "eos_token_id": [3, 30], "do_sample": true})");
  ASSERT_TRUE(files.ok()) << files.status();
  const GenerationDefaults& defaults = (*files)->generation_defaults();
  EXPECT_EQ(defaults.temperature, 0.6);
  EXPECT_EQ(defaults.top_k, 20);
  EXPECT_EQ(defaults.top_p, 0.95);
  EXPECT_EQ(defaults.min_p, std::nullopt);
  EXPECT_EQ(defaults.repetition_penalty, 1.1);
  EXPECT_THAT((*files)->eos_token_ids(), testing::IsSupersetOf({3, 30}));
  const std::string path = model.files().Path("generation_config.json");
  EXPECT_EQ(with(R"({"top_p": 0})").status().message(),
            path + ": 'top_p' is 0; expected above 0, at most 1");
  EXPECT_EQ(with(R"({"repetition_penalty": 0})").status().message(),
            path + ": 'repetition_penalty' is 0; expected above 0, at most 1e6");
  EXPECT_EQ(with(R"({"temperature": "hot"})").status().message(),
            path + ": 'temperature' is \"hot\"; expected a number");
  EXPECT_EQ(with(R"({"eos_token_id": 32})").status().message(),
            path + ": eos_token_id 32; expected 0 to vocab_size - 1 = 31");
}

TEST(ModelFilesTest, TheFingerprintFollowsContentAndConfiguration) {
  const auto of = [](const std::string& path) {
    const auto files = ModelFiles::Open(path);
    return files.ok() ? (*files)->Fingerprint() : 0;
  };
  SpoiledModel model;
  const uint64_t before = of(model.files().path());
  EXPECT_EQ(of(model.files().path()), before);
  EXPECT_EQ(of(SpoiledModel().files().path()), before);
  std::string bytes = ReadAll(model.files().Path("model.safetensors"));
  for (const size_t changed : {bytes.size() - 1, bytes.size() / 2, bytes.size() / 2 + 1}) {
    bytes[changed] ^= 1;
    model.files().Write("model.safetensors", bytes);
    EXPECT_NE(of(model.files().path()), before) << "byte " << changed;
    bytes[changed] ^= 1;
  }
  SpoiledModel other;
  other.SetConfig("rope_theta", 20000.0);
  EXPECT_NE(of(other.files().path()), before);
}

TEST(WeightsTest, TensorsMissingLeftOverOrMisshapenAreNamed) {
  const auto after = [](const SpoiledModel& model) {
    return model.Load().substr(model.files().path().size() + 2);
  };
  SpoiledModel renamed;
  renamed.ReplaceInHeader("self_attn.v_proj", "self_attn.w_proj");
  EXPECT_EQ(after(renamed),
            "tensor 'model.layers.0.self_attn.v_proj.weight' of shape [32, 32] is missing");
  SpoiledModel more_layers;
  more_layers.SetConfig("num_hidden_layers", 2);
  EXPECT_EQ(after(more_layers),
            "tensor 'model.layers.1.input_layernorm.weight' of shape [32] is missing");
  SpoiledModel fewer_heads;
  fewer_heads.SetConfig("num_key_value_heads", 1);
  EXPECT_EQ(after(fewer_heads),
            "tensor 'model.layers.0.self_attn.k_proj.weight' has the shape [32, 32]; the "
            "configuration expects [16, 32]");
  SpoiledModel biased;
  biased.SetConfig("attention_bias", true);
  EXPECT_EQ(after(biased),
            "tensor 'model.layers.0.self_attn.q_proj.bias' of shape [32] is missing");
  EXPECT_THAT(Load(OwnGoldenPath("bad_files/config_hidden_size")), HasSubstr("[32, 32]"));
}

TEST(WeightsTest, LeftOverTensorsAreNamedUnlessHarmless) {
  const auto with_tensor = [](const std::string& name) {
    SpoiledModel model;
    std::string bytes = ReadAll(model.files().Path("model.safetensors"));
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes.data(), 8);
    json header = json::parse(bytes.substr(8, header_bytes), nullptr, false);
    const std::string data = bytes.substr(8 + header_bytes);
    header[name] = {
        {"dtype", "F32"}, {"shape", {2}}, {"data_offsets", {data.size(), data.size() + 8}}};
    const std::string text = header.dump();
    header_bytes = text.size();
    model.files().Write("model.safetensors",
                        std::string(reinterpret_cast<const char*>(&header_bytes), 8) + text + data +
                            std::string(8, '\0'));
    const std::string message = model.Load();
    return message == "ok" ? message : message.substr(model.files().path().size() + 2);
  };
  EXPECT_EQ(with_tensor("model.layers.0.self_attn.rotary_emb.inv_freq"), "ok");
  EXPECT_EQ(with_tensor("model.layers.0.self_attn.q_proj.bias"),
            "tensor 'model.layers.0.self_attn.q_proj.bias' of shape [2] is left over; the "
            "configuration has no place for it");
}

TEST(WeightsTest, GgufStoresRotaryPairsSideBySide) {
  const auto files = ModelFiles::Open(OwnGoldenPath("gguf_types/Q8_0.gguf"));
  ASSERT_TRUE(files.ok()) << files.status();
  const auto weights = FindWeights(**files);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->qk_order, RowOrder::kRotaryInterleaved);
  EXPECT_EQ(weights->head, weights->embedding);
  EXPECT_EQ(weights->rope_factors, nullptr);
}

}  // namespace
}  // namespace quire
