// The JSON files of a Hugging Face folder, each beside right ones. The first byte says which:
// 'g' generation_config.json, 'i' model.safetensors.index.json, else config.json.
#include "engine/model_config.h"
#include "engine/model_files.h"
#include "engine/weights.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/model_config_checks.h"

namespace quire {
namespace {

constexpr char kConfig[] =
    R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1, "hidden_size": 4,
        "num_attention_heads": 1, "intermediate_size": 4, "vocab_size": 8,
        "max_position_embeddings": 16, "eos_token_id": 2})";

// A shard that holds `name`, one number.
std::string Shard(const std::string& name) {
  std::string header =
      R"({")" + name + R"(": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(4, '\0');
}

// The folder with `name` in it as `content`; opens it.
absl::Status OpenWith(const std::string& name, absl::string_view content) {
  static const auto* const folder = [] {
    auto* made = new ScratchFolder;
    for (const char* kind : {"generation", "index"}) {
      std::filesystem::create_directory(made->Path(kind));
      made->Write(std::string(kind) + "/config.json", kConfig);
    }
    made->Write("generation/model.safetensors", Shard("x"));
    made->Write("index/a", Shard("x"));
    made->Write("index/b", Shard("y"));
    return made;
  }();
  const bool generation = name == "generation_config.json";
  const std::string directory = folder->Path(generation ? "generation" : "index");
  folder->Write((generation ? "generation/" : "index/") + name, content);
  const auto files = ModelFiles::Open(directory);
  if (!files.ok()) {
    CheckFileError(files.status(), directory);
    return files.status();
  }
  const GenerationDefaults& defaults = (*files)->generation_defaults();
  QUIRE_CHECK(defaults.temperature.value_or(1) >= 0, "a negative temperature");
  QUIRE_CHECK(defaults.top_k.value_or(0) >= 0, "a negative top_k");
  const double top_p = defaults.top_p.value_or(1);
  QUIRE_CHECK(top_p > 0 && top_p <= 1, "top_p out of range");
  const double min_p = defaults.min_p.value_or(0);
  QUIRE_CHECK(min_p >= 0 && min_p <= 1, "min_p out of range");
  for (const int32_t id : (*files)->eos_token_ids()) {
    QUIRE_CHECK(id >= 0 && id < (*files)->config().vocab_size, "an EOS id out of range");
  }
  return absl::OkStatus();
}

void ReadConfig(absl::string_view text) {
  const auto config = ParseModelConfig(text, "some/config.json");
  if (config.ok()) {
    CheckReadConfig(*config, "some/config.json");
  } else {
    CheckFileError(config.status(), "some/config.json");
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input = quire::ViewOf(data, size);
  const char kind = input.empty() ? ' ' : input[0];
  if (kind == 'g') {
    quire::OpenWith("generation_config.json", input.substr(1)).IgnoreError();
  } else if (kind == 'i') {
    quire::OpenWith("model.safetensors.index.json", input.substr(1)).IgnoreError();
  } else {
    quire::ReadConfig(input);
  }
  return 0;
}
