#include "engine/model_families.h"

#include "absl/strings/str_join.h"

namespace quire {
namespace {

constexpr ModelFamily kFamilies[] = {
    {.name = "llama",
     .hf_architecture = "LlamaForCausalLM",
     .hf_model_type = "llama",
     .gguf_architecture = "llama",
     .attention_bias_key = "attention_bias",
     .mlp_bias_key = "mlp_bias",
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
    if (family.gguf_architecture == architecture) return &family;
  }
  return nullptr;
}

std::string SupportedHfArchitectures() {
  return absl::StrJoin(kFamilies, ", ", [](std::string* out, const ModelFamily& family) {
    out->append(family.hf_architecture);
  });
}

std::string SupportedGgufArchitectures() {
  return absl::StrJoin(kFamilies, ", ", [](std::string* out, const ModelFamily& family) {
    out->append(family.gguf_architecture);
  });
}

}  // namespace quire
