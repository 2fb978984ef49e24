#ifndef QUIRE_ENGINE_MODEL_CONFIG_H_
#define QUIRE_ENGINE_MODEL_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "engine/model_families.h"
#include "kernels/backend.h"

namespace quire {

class GgufShards;

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

// Several times what the largest models have.
inline constexpr int kMaxLayers = 1024;

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
  bool qkv_bias = false;             // on q, k and v
  bool out_bias = false;             // on the attention's output projection
  bool mlp_bias = false;             // on gate, up and down
  bool qk_norm = false;              // RMSNorm of every head of q and k, before rope
  // [num_layers]: tokens that a query of the layer sees, itself included; 0: all. Empty: all see
  // all.
  std::vector<int32_t> layer_windows;
  std::vector<int32_t> layers_without_rope;  // ascending
  RopeConfig rope;
  // Elements that share a scale where FP8 weights have a matrix of scales.
  int fp8_block_rows = 128;
  int fp8_block_cols = 128;
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;  // ascending; may be empty
  // Why some of it is as it is, for people: "rope" -> "rope_scaling in config.json". The keys:
  // rope, window, no_rope, qk_norm, attention_bias, mlp_bias, tied. Not part of ToText.
  std::map<std::string, std::string> sources;
};

// From the text of a config.json; `path` names it in errors. Understands the spellings of
// transformers before version 5 (rope_theta, rope_scaling, torch_dtype) and since (rope_parameters,
// dtype). Errors name the key, what was expected and what was found.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json_text, const std::string& path);

// From the metadata of a GGUF model, and from which tensors it has (biases, an output matrix).
absl::StatusOr<ModelConfig> ModelConfigOfGguf(const GgufShards& shards);

// Reads no tensors: config.json in the directory `path`, or the metadata of the .gguf file `path`.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path);

// Refuses absurd sizes and contradictions; both readers have called it. `path` names the file.
absl::Status CheckModelConfig(const ModelConfig& config, const std::string& path);

// The part of it that backends need.
ModelShape ShapeOf(const ModelConfig& config);

// The longest sequence that the model can be run for: what it was made for, and with dynamic
// scaling of rope `factor` times that.
int LongestModelLen(const ModelConfig& config);

// "32 in all layers", "32 in layers 1-2", "none": what is said of layers one by one, for people.
std::string WindowsText(const ModelConfig& config);
// "0-2, 5": ascending numbers with ranges; "none" when there are none.
std::string RangesText(absl::Span<const int32_t> numbers);

// The indices of layers N, 2N, ..., counted from 1. REQUIRES: n >= 1.
std::vector<int32_t> EveryNthLayer(int n, int num_layers);

// All of it in one line of text, stable: it goes into fingerprints.
std::string ToText(const ModelConfig& config);

// "default", "linear", ...
const char* NameOf(RopeKind kind);

}  // namespace quire

#endif  // QUIRE_ENGINE_MODEL_CONFIG_H_
