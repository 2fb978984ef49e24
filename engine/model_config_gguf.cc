// Reading ModelConfig from the metadata of a GGUF file. The keys:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, "Standardized key-value pairs".
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "engine/gguf_shards.h"
#include "engine/model_config.h"

namespace quire {
namespace {

// Values of keys that begin with the architecture. Keeps the first error, as JsonFields does.
class Fields {
 public:
  Fields(const GgufFile& gguf, std::string architecture)
      : gguf_(gguf), architecture_(std::move(architecture)) {}

  const absl::Status& status() const { return status_; }
  void Fail(absl::string_view what) {
    Keep(absl::InvalidArgumentError(absl::StrCat(gguf_.path(), ": ", what)));
  }

  std::string Key(absl::string_view suffix) const {
    return absl::StrCat(architecture_, ".", suffix);
  }
  bool Has(absl::string_view suffix) const { return gguf_.Has(Key(suffix)); }

  int Int(const std::string& key) {
    const absl::StatusOr<int64_t> value = gguf_.GetInt(key);
    if (!value.ok()) {
      Keep(value.status());
      return 0;
    }
    if (*value < 0 || *value > std::numeric_limits<int>::max()) {
      Fail(absl::StrCat("the metadata key '", key, "' is ", *value, "; expected 0 to 2^31 - 1"));
      return 0;
    }
    return static_cast<int>(*value);
  }
  int RequiredInt(absl::string_view suffix) { return Int(Key(suffix)); }
  int OptionalInt(absl::string_view suffix, int fallback) {
    return Has(suffix) ? Int(Key(suffix)) : fallback;
  }
  double RequiredNumber(absl::string_view suffix) {
    const absl::StatusOr<double> value = gguf_.GetFloat(Key(suffix));
    if (!value.ok()) Keep(value.status());
    return value.value_or(0);
  }
  double OptionalNumber(absl::string_view suffix, double fallback) {
    return Has(suffix) ? RequiredNumber(suffix) : fallback;
  }
  std::string OptionalString(absl::string_view suffix, const char* fallback) {
    if (!Has(suffix)) return fallback;
    const absl::StatusOr<absl::string_view> value = gguf_.GetString(Key(suffix));
    if (!value.ok()) Keep(value.status());
    return std::string(value.value_or(""));
  }

 private:
  void Keep(const absl::Status& status) {
    // A key that is missing where one is needed is a file that is wrong, not one that is missing.
    if (status_.ok()) status_ = absl::InvalidArgumentError(status.message());
  }

  const GgufFile& gguf_;
  const std::string architecture_;
  absl::Status status_;
};

// Llama 3's scaling is not among these: llama.cpp stores it as a tensor of factors, which
// Transformer applies.
void ReadRope(Fields& fields, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.theta = fields.OptionalNumber("rope.freq_base", rope.theta);
  config.sources["rope"] = fields.Key("rope.*");
  const int rotary_dim = fields.OptionalInt("rope.dimension_count", config.head_dim);
  if (rotary_dim != config.head_dim) {
    fields.Fail(absl::StrCat(fields.Key("rope.dimension_count"), " is ", rotary_dim,
                             "; expected head_dim = ", config.head_dim));
  }
  const std::string kind = fields.OptionalString("rope.scaling.type", "none");
  if (kind == "linear") {
    rope.kind = RopeKind::kLinear;
    rope.factor = fields.RequiredNumber("rope.scaling.factor");
  } else if (kind == "yarn") {
    rope.kind = RopeKind::kYarn;
    rope.factor = fields.RequiredNumber("rope.scaling.factor");
    rope.original_max_position =
        fields.OptionalInt("rope.scaling.original_context_length", config.max_position_embeddings);
    rope.beta_fast = fields.OptionalNumber("rope.scaling.yarn_beta_fast", rope.beta_fast);
    rope.beta_slow = fields.OptionalNumber("rope.scaling.yarn_beta_slow", rope.beta_slow);
    rope.attention_factor = fields.OptionalNumber("rope.scaling.attn_factor", 1) *
                            fields.OptionalNumber("rope.scaling.yarn_attn_factor", 1) *
                            (1 + 0.1 * std::log(std::max(rope.factor, 1.0)));
  } else if (kind != "none") {
    fields.Fail(absl::StrCat(fields.Key("rope.scaling.type"), " is ", Quoted(kind),
                             "; expected one of none, linear, yarn"));
  } else if (fields.Has("rope.scale_linear")) {  // the older spelling
    rope.kind = RopeKind::kLinear;
    rope.factor = fields.RequiredNumber("rope.scale_linear");
  }
}

// A window is all layers'; layers without rope follow from the family alone.
void ReadLayers(Fields& fields, ModelConfig& config) {
  const int window = fields.OptionalInt("attention.sliding_window", 0);
  if (config.num_layers < 1 || config.num_layers > kMaxLayers) return;  // CheckModelConfig says so
  if (window > 0) {
    if (fields.Has("attention.sliding_window_pattern")) {
      fields.Fail(absl::StrCat(fields.Key("attention.sliding_window_pattern"),
                               " is not supported; expected one window for all layers"));
    }
    config.layer_windows.assign(config.num_layers, window);
    config.sources["window"] = fields.Key("attention.sliding_window");
  }
  const int interval = config.family->no_rope_interval;
  if (interval == 0) return;
  config.layers_without_rope = EveryNthLayer(interval, config.num_layers);
  config.sources["no_rope"] = "what the family has by default";
}

void ReadWhatTensorsSay(const GgufShards& shards, ModelConfig& config) {
  const auto has = [&](const char* name) { return shards.FindTensor(name) != nullptr; };
  const auto source = [&](const char* name) {
    return absl::StrCat("tensor ", name, has(name) ? "" : " is missing");
  };
  config.tie_word_embeddings = !has("output.weight");
  config.sources["tied"] = source("output.weight");
  config.qkv_bias = has("blk.0.attn_q.bias");
  config.sources["attention_bias"] = source("blk.0.attn_q.bias");
  config.out_bias = has("blk.0.attn_output.bias");
  config.mlp_bias = has("blk.0.ffn_gate.bias");
  config.sources["mlp_bias"] = source("blk.0.ffn_gate.bias");
  config.qk_norm = config.family->qk_norm;
  if (config.qk_norm) config.sources["qk_norm"] = "what the family always has";
  if (has("rope_freqs.weight")) {
    absl::StrAppend(&config.sources["rope"], ", divided by tensor rope_freqs.weight");
  }
}

void ReadTokens(const GgufFile& gguf, Fields& fields, ModelConfig& config) {
  if (gguf.Has("tokenizer.ggml.bos_token_id")) {
    config.bos_token_id = fields.Int("tokenizer.ggml.bos_token_id");
  }
  // End of text, end of turn.
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (gguf.Has(key)) config.eos_token_ids.push_back(fields.Int(key));
  }
  std::vector<int32_t>& ids = config.eos_token_ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfigOfGguf(const GgufShards& shards) {
  const GgufFile& gguf = shards.first();
  const absl::StatusOr<absl::string_view> architecture = gguf.GetString("general.architecture");
  if (!architecture.ok()) return absl::InvalidArgumentError(architecture.status().message());
  ModelConfig config;
  config.family = FindGgufFamily(*architecture);
  if (config.family == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(gguf.path(), ": the architecture ", Quoted(*architecture),
                     " is not supported; expected one of ", SupportedGgufArchitectures()));
  }

  Fields fields(gguf, std::string(*architecture));
  config.num_layers = fields.RequiredInt("block_count");
  config.hidden_size = fields.RequiredInt("embedding_length");
  config.num_heads = fields.RequiredInt("attention.head_count");
  config.num_kv_heads = fields.OptionalInt("attention.head_count_kv", config.num_heads);
  config.intermediate_size = fields.RequiredInt("feed_forward_length");
  config.max_position_embeddings = fields.RequiredInt("context_length");
  config.norm_eps = fields.RequiredNumber("attention.layer_norm_rms_epsilon");
  if (const int num_experts = fields.OptionalInt("expert_count", 0); num_experts > 0) {
    fields.Fail(absl::StrCat(fields.Key("expert_count"), " is ", num_experts,
                             "; mixtures of experts are not supported"));
  }
  const int derived_head_dim = config.num_heads > 0 ? config.hidden_size / config.num_heads : 0;
  config.head_dim = fields.OptionalInt("attention.key_length", derived_head_dim);
  const int value_length = fields.OptionalInt("attention.value_length", config.head_dim);
  if (value_length != config.head_dim) {
    fields.Fail(absl::StrCat("keys have ", config.head_dim, " elements a head and values ",
                             value_length, "; expected the same"));
  }
  ReadRope(fields, config);
  ReadLayers(fields, config);
  ReadTokens(gguf, fields, config);

  const FileTensor* embedding = shards.FindTensor("token_embd.weight");
  if (fields.Has("vocab_size")) {
    config.vocab_size = fields.RequiredInt("vocab_size");
  } else if (embedding != nullptr && embedding->view.rows <= std::numeric_limits<int>::max()) {
    config.vocab_size = static_cast<int>(embedding->view.rows);
  }
  ReadWhatTensorsSay(shards, config);
  if (!fields.status().ok()) return fields.status();
  if (absl::Status status = CheckModelConfig(config, gguf.path()); !status.ok()) return status;
  return config;
}

}  // namespace quire
