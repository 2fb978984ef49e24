#include "engine/model_families.h"

#include <vector>

#include "absl/strings/str_join.h"

namespace quire {
namespace {

// Defaults are those of the configuration classes in transformers.
constexpr ModelFamily kFamilies[] = {
    // Also TinyLlama, SmolLM2 and whatever else calls itself so.
    {.name = "llama",
     .hf_architecture = "LlamaForCausalLM",
     .hf_model_type = "llama",
     .gguf_architecture = "llama",
     .attention_bias_key = "attention_bias",
     .mlp_bias_key = "mlp_bias",
     .gguf_qk_order = RowOrder::kRotaryInterleaved},
    {.name = "mistral",
     .hf_architecture = "MistralForCausalLM",
     .hf_model_type = "mistral",
     .gguf_architecture = nullptr,
     .window_rule = WindowRule::kAllLayers,
     .default_window = 4096},
    {.name = "qwen2",
     .hf_architecture = "Qwen2ForCausalLM",
     .hf_model_type = "qwen2",
     .gguf_architecture = "qwen2",
     .qkv_bias = true,
     .window_rule = WindowRule::kUpperLayers,
     .default_window = 4096},
    {.name = "qwen3",
     .hf_architecture = "Qwen3ForCausalLM",
     .hf_model_type = "qwen3",
     .gguf_architecture = "qwen3",
     .attention_bias_key = "attention_bias",
     .qk_norm = true,
     .window_rule = WindowRule::kUpperLayers,
     .default_window = 4096},
    {.name = "smollm3",
     .hf_architecture = "SmolLM3ForCausalLM",
     .hf_model_type = "smollm3",
     .gguf_architecture = "smollm3",
     .attention_bias_key = "attention_bias",
     .mlp_bias_key = "mlp_bias",
     .window_rule = WindowRule::kNoRopeLayers,
     .no_rope_interval = 4,
     .default_theta = 2000000,
     .tied_by_default = true,
     .gguf_qk_order = RowOrder::kRotaryInterleaved},
};

}  // namespace

const ModelFamily* FindHfFamily(absl::string_view architecture, absl::string_view model_type) {
  for (const ModelFamily& family : kFamilies) {
    if (architecture.empty() ? family.hf_model_type == model_type
                             : family.hf_architecture == architecture) {
      return &family;
    }
  }
  return nullptr;
}

const ModelFamily* FindGgufFamily(absl::string_view architecture) {
  for (const ModelFamily& family : kFamilies) {
    if (family.gguf_architecture != nullptr && family.gguf_architecture == architecture) {
      return &family;
    }
  }
  return nullptr;
}

std::string SupportedHfArchitectures() {
  return absl::StrJoin(kFamilies, ", ", [](std::string* out, const ModelFamily& family) {
    out->append(family.hf_architecture);
  });
}

std::string SupportedGgufArchitectures() {
  std::vector<absl::string_view> names;
  for (const ModelFamily& family : kFamilies) {
    if (family.gguf_architecture != nullptr) names.emplace_back(family.gguf_architecture);
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace quire
