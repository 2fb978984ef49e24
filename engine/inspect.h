#ifndef QUIRE_ENGINE_INSPECT_H_
#define QUIRE_ENGINE_INSPECT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/gguf_override.h"
#include "engine/memory_plan.h"
#include "engine/model_config.h"

namespace quire {

// A tensor as it lies in its file.
struct TensorReport {
  std::string name;
  std::vector<int64_t> shape;  // slowest first
  std::string format;          // "Q4_1", "BF16", ...
  int64_t num_parameters = 0;
  int64_t num_bytes = 0;
};

// What is in a model's files, for people and scripts. Plain values: the files are closed again.
struct ModelReport {
  // What was found: "Hugging Face folder", "GGUF file", "config.json", "safetensors file".
  std::string kind;
  std::vector<TensorReport> tensors;  // none: a configuration or a vocabulary alone
  // Nothing for files that do not say: a lone .safetensors, a GGUF file with a vocabulary only.
  std::optional<ModelConfig> config;
  // As Engine::Load holds them by default; nothing without tensors.
  std::optional<int64_t> held_weight_bytes;
  std::string family_reason;  // where the family's name was found; empty without a config
};

// Looks at a folder in Hugging Face format (its config.json may be all there is), such a
// config.json, a .gguf file or a single .safetensors file. Everything is checked that loading
// checks, so what is refused here is refused there, with the same words: tensors that are missing,
// left over or of another shape than the configuration says, and all that is wrong inside a file.
// Cost: headers, and a few KiB of each tensor.
// Overrides are for the metadata of a GGUF file; FAILED_PRECONDITION where it is none.
absl::StatusOr<ModelReport> InspectModel(const std::string& path,
                                         absl::Span<const GgufOverride> overrides = {});

}  // namespace quire

#endif  // QUIRE_ENGINE_INSPECT_H_
