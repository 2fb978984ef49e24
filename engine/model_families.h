#ifndef QUIRE_ENGINE_MODEL_FAMILIES_H_
#define QUIRE_ENGINE_MODEL_FAMILIES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "kernels/tensor.h"

namespace quire {

// Which layers of a family see a window of tokens only, by keys of config.json.
enum class WindowRule : uint8_t {
  kNone,         // all layers see everything
  kAllLayers,    // all that of `sliding_window`, unless it is null
  kUpperLayers,  // with `use_sliding_window`: those from `max_window_layers` on, or by
                 // `layer_types`
  kNoRopeLayers  // with `use_sliding_window`: those without rope, or by `layer_types`
};

// A family of decoders that differ from Llama by what is said here and nothing else. Supporting
// another one is a row in the table, and golden data for it.
struct ModelFamily {
  const char* name;
  const char* hf_architecture;  // `architectures` in config.json
  const char* hf_model_type;    // `model_type`, where `architectures` is missing
  // `general.architecture`, and the prefix of its keys; nullptr: GGUF has it as another family's.
  const char* gguf_architecture;
  // Keys of config.json that switch biases on; nullptr: none of them does.
  const char* attention_bias_key = nullptr;  // of q, k, v and the output projection
  const char* mlp_bias_key = nullptr;
  bool qkv_bias = false;  // q, k and v always have biases
  bool qk_norm = false;   // every head of q and k is normalised before rope
  WindowRule window_rule = WindowRule::kNone;
  int default_window = 0;    // where `sliding_window` is missing; 0: none
  int no_rope_interval = 0;  // every Nth layer has no rope, where nothing else is said; 0: none
  double default_theta = 10000;
  bool tied_by_default = false;
  RowOrder gguf_qk_order = RowOrder::kAsIs;  // of the rows of q and k in GGUF files
};

// nullptr when there is no such family.
const ModelFamily* FindHfFamily(absl::string_view architecture, absl::string_view model_type);
const ModelFamily* FindGgufFamily(absl::string_view architecture);

// "LlamaForCausalLM, ..." and "llama, ...", for errors.
std::string SupportedHfArchitectures();
std::string SupportedGgufArchitectures();

}  // namespace quire

#endif  // QUIRE_ENGINE_MODEL_FAMILIES_H_
