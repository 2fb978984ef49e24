#ifndef QUIRE_ENGINE_MODEL_FAMILIES_H_
#define QUIRE_ENGINE_MODEL_FAMILIES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "kernels/tensor.h"

namespace quire {

// A family of decoders that differ from Llama by what is said here and nothing else. Supporting
// another one is a row in the table, and golden data for it.
struct ModelFamily {
  const char* name;
  const char* hf_architecture;    // `architectures` in config.json
  const char* hf_model_type;      // `model_type`, where `architectures` is missing
  const char* gguf_architecture;  // `general.architecture`, and the prefix of its keys
  // Keys of config.json that switch biases on; nullptr: the family has none.
  const char* attention_bias_key;
  const char* mlp_bias_key;
  RowOrder gguf_qk_order;  // of the rows of q and k in GGUF files
};

// nullptr when there is no such family.
const ModelFamily* FindHfFamily(absl::string_view architecture, absl::string_view model_type);
const ModelFamily* FindGgufFamily(absl::string_view architecture);

// "LlamaForCausalLM, ..." and "llama, ...", for errors.
std::string SupportedHfArchitectures();
std::string SupportedGgufArchitectures();

}  // namespace quire

#endif  // QUIRE_ENGINE_MODEL_FAMILIES_H_
