#ifndef QUIRE_ENGINE_MODEL_CONFIG_H_
#define QUIRE_ENGINE_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "engine/model_families.h"
#include "kernels/backend.h"

namespace quire {

class GgufFile;

// How angles of rotary embeddings are stretched; engine/rope.h has the formulas.
enum class RopeKind : uint8_t { kDefault, kLinear, kDynamic, kLlama3, kYarn };

struct RopeConfig {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000;  // base of the frequencies
  double factor = 1;     // all kinds but kDefault; at least 1
  // kLlama3, kYarn: the context length before it was stretched.
  int original_max_position = 0;
  // kLlama3.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  // kYarn.
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;         // the ramp's ends are whole numbers
  double attention_factor = 1;  // on cos and sin
};

// What a model's files say about its shape: plain numbers, checked for sense when read, and
// independent of how the files spell them. It says nothing about how the model is run (engine
// configuration does) and holds no weights.
struct ModelConfig {
  const ModelFamily* family = nullptr;  // a row of the table; never nullptr once read
  int num_layers = 0;
  int hidden_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;  // divides num_heads
  int head_dim = 0;      // even; num_heads * head_dim need not be hidden_size
  int intermediate_size = 0;
  int vocab_size = 0;
  int max_position_embeddings = 0;  // longest sequence the model was made for
  double norm_eps = 0;
  bool tie_word_embeddings = false;  // the output matrix is the embedding
  bool attention_bias = false;       // on q, k, v and the output projection
  bool mlp_bias = false;             // on gate, up and down
  RopeConfig rope;
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;  // ascending; may be empty
};

// From the text of a config.json; `path` names it in errors. Understands the spellings of
// transformers before version 5 (rope_theta, rope_scaling, torch_dtype) and since (rope_parameters,
// dtype). Errors name the key, what was expected and what was found.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json_text, const std::string& path);

// From the metadata of a GGUF file, and from which tensors it has (biases, an output matrix).
absl::StatusOr<ModelConfig> ModelConfigOfGguf(const GgufFile& gguf);

// Reads no tensors: config.json in the directory `path`, or the metadata of the .gguf file `path`.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path);

// Refuses absurd sizes and contradictions; both readers have called it. `path` names the file.
absl::Status CheckModelConfig(const ModelConfig& config, const std::string& path);

// The part of it that backends need.
ModelShape ShapeOf(const ModelConfig& config);

// All of it in one line of text, stable: it goes into fingerprints.
std::string ToText(const ModelConfig& config);

// "default", "linear", ...
const char* NameOf(RopeKind kind);

}  // namespace quire

#endif  // QUIRE_ENGINE_MODEL_CONFIG_H_
