// Reading ModelConfig from config.json.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "engine/json_fields.h"
#include "engine/json_file.h"
#include "engine/mapped_file.h"
#include "engine/model_config.h"

namespace quire {
namespace {

using nlohmann::json;

// Yarn's factor on cos and sin, as _compute_yarn_parameters in transformers derives it.
double YarnAttentionFactor(JsonFields& fields, double factor) {
  if (const auto given = fields.Number("attention_factor"); given.has_value()) return *given;
  const auto scale = [factor](double mscale) {
    return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
  };
  const double mscale = fields.Number("mscale").value_or(0);
  const double mscale_all_dim = fields.Number("mscale_all_dim").value_or(0);
  return mscale != 0 && mscale_all_dim != 0 ? scale(mscale) / scale(mscale_all_dim) : scale(1);
}

// `rope_parameters` or `rope_scaling`.
absl::Status ReadRopeScaling(const json& object, const std::string& where, ModelConfig& config) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": expected a JSON object"));
  }
  RopeConfig& rope = config.rope;
  JsonFields fields(object, where);
  rope.theta = fields.Number("rope_theta").value_or(rope.theta);
  std::string kind = fields.String("rope_type").value_or("");
  if (kind.empty()) kind = fields.String("type").value_or("default");
  if (kind == "default") {
    rope.kind = RopeKind::kDefault;
  } else if (kind == "linear") {
    rope.kind = RopeKind::kLinear;
  } else if (kind == "dynamic") {
    rope.kind = RopeKind::kDynamic;
  } else if (kind == "llama3") {
    rope.kind = RopeKind::kLlama3;
  } else if (kind == "yarn") {
    rope.kind = RopeKind::kYarn;
  } else {
    fields.Fail(absl::StrCat("the rope type ", Quoted(kind),
                             " is not supported; expected one of default, linear, dynamic, llama3, "
                             "yarn"));
  }
  const std::optional<double> factor = fields.Number("factor");
  if (rope.kind == RopeKind::kLlama3 || rope.kind == RopeKind::kYarn) {
    rope.original_max_position =
        fields.Int("original_max_position_embeddings").value_or(config.max_position_embeddings);
    rope.low_freq_factor = fields.Number("low_freq_factor").value_or(rope.low_freq_factor);
    rope.high_freq_factor = fields.Number("high_freq_factor").value_or(rope.high_freq_factor);
    rope.beta_fast = fields.Number("beta_fast").value_or(rope.beta_fast);
    rope.beta_slow = fields.Number("beta_slow").value_or(rope.beta_slow);
    rope.truncate = fields.Bool("truncate").value_or(true);
  }
  if (rope.kind != RopeKind::kDefault) {
    if (!factor.has_value()) fields.Fail(absl::StrCat("'factor' is missing for type ", kind));
    rope.factor = factor.value_or(1);
  }
  if (rope.kind == RopeKind::kYarn)
    rope.attention_factor = YarnAttentionFactor(fields, rope.factor);
  if (fields.Number("partial_rotary_factor").value_or(1) != 1) {
    fields.Fail("'partial_rotary_factor' other than 1 is not supported");
  }
  return fields.status();
}

// What no family has, but a config.json may ask for.
void RefuseUnsupported(JsonFields& fields) {
  const std::string activation = fields.String("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    fields.Fail(
        absl::StrCat("hidden_act ", Quoted(activation), " is not supported; expected 'silu'"));
  }
  if (fields.Number("partial_rotary_factor").value_or(1) != 1) {
    fields.Fail("'partial_rotary_factor' other than 1 is not supported");
  }
}

// `quantization_config`: FP8 in the form of DeepSeek's and Qwen's checkpoints is dequantised at
// load; other methods are refused by name.
absl::Status ReadQuantization(const json& object, const std::string& where, ModelConfig& config) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": expected a JSON object"));
  }
  JsonFields fields(object, where);
  const std::string method = fields.String("quant_method").value_or("");
  if (fields.status().ok() && method != "fp8") {
    return absl::UnimplementedError(absl::StrCat(
        where, ": weights quantised by ", Quoted(method),
        " are not supported; serve the model's unquantised or FP8 (quant_method 'fp8') "
        "weights, or a GGUF file of it"));
  }
  const json* block = fields.Find("weight_block_size");
  if (block == nullptr) return fields.status();
  constexpr int64_t kMaxBlock = 1 << 20;
  const auto is_size = [](const json& size) {
    const uint64_t* value = size.get_ptr<const json::number_unsigned_t*>();
    return value != nullptr && *value >= 1 && *value <= kMaxBlock;
  };
  if (!block->is_array() || block->size() != 2 || !is_size((*block)[0]) || !is_size((*block)[1])) {
    fields.Fail("'weight_block_size' is not an array of two sizes from 1 to 2^20");
    return fields.status();
  }
  config.fp8_block_rows = (*block)[0].get<int>();
  config.fp8_block_cols = (*block)[1].get<int>();
  return fields.status();
}

// The positions of `element` in the array `key`, which has one element a layer; nothing where there
// is no such key. Other elements than `element` and `other` are errors.
std::optional<std::vector<int32_t>> LayersThatAre(const json& element, const json& other,
                                                  const char* key, int num_layers,
                                                  JsonFields& fields) {
  const json* list = fields.Find(key);
  if (list == nullptr) return std::nullopt;
  std::vector<int32_t> layers;
  if (!list->is_array() || static_cast<int>(list->size()) != num_layers) {
    fields.Fail(absl::StrCat("'", key, "' is not an array of num_hidden_layers = ", num_layers,
                             " elements"));
    return layers;
  }
  for (int i = 0; i < num_layers; ++i) {
    const json& found = (*list)[i];
    if (found == element) layers.push_back(i);
    const std::string* const text = found.get_ptr<const std::string*>();
    if (found != element && found != other) {
      fields.Fail(absl::StrCat("'", key, "' has ", Quoted(text != nullptr ? *text : found.dump()),
                               " for layer ", i, "; expected ", element.dump(), " or ",
                               other.dump()));
    }
  }
  return layers;
}

void ReadLayersWithoutRope(JsonFields& fields, ModelConfig& config) {
  if (config.family->no_rope_interval == 0) return;
  const auto listed = LayersThatAre(0, 1, "no_rope_layers", config.num_layers, fields);
  if (listed.has_value()) {
    config.layers_without_rope = *listed;
    config.sources["no_rope"] = "no_rope_layers";
    return;
  }
  const std::optional<int> given = fields.Int("no_rope_layer_interval");
  const int interval = given.value_or(config.family->no_rope_interval);
  config.sources["no_rope"] =
      given.has_value() ? "no_rope_layer_interval" : "what the family has by default";
  if (interval < 1) {
    fields.Fail(absl::StrCat("no_rope_layer_interval is ", interval, "; expected at least 1"));
    return;
  }
  config.layers_without_rope = EveryNthLayer(interval, config.num_layers);
}

// After ReadLayersWithoutRope.
void ReadWindows(const json& root, JsonFields& fields, ModelConfig& config) {
  const WindowRule rule = config.family->window_rule;
  const auto sliding = LayersThatAre("sliding_attention", "full_attention", "layer_types",
                                     config.num_layers, fields);
  int window = 0;
  if (rule == WindowRule::kAllLayers ||
      (rule != WindowRule::kNone && fields.Bool("use_sliding_window").value_or(false))) {
    window = root.contains("sliding_window") ? fields.Int("sliding_window").value_or(0)
                                             : config.family->default_window;
    if (fields.Find("sliding_window") != nullptr && window < 1) {
      fields.Fail(absl::StrCat("sliding_window is ", window, "; expected at least 1"));
    }
  }
  if (sliding.has_value() && !sliding->empty() && window == 0) {
    fields.Fail(
        "'layer_types' has 'sliding_attention', but the family or its other keys give no window; "
        "expected 'full_attention' only");
  }
  if (window == 0) return;
  std::vector<int32_t> layers;
  if (sliding.has_value() && rule != WindowRule::kAllLayers) {
    layers = *sliding;
    config.sources["window"] = "sliding_window and layer_types";
  } else if (rule == WindowRule::kNoRopeLayers) {
    layers = config.layers_without_rope;
    config.sources["window"] = "sliding_window and the layers without rope";
  } else if (rule == WindowRule::kAllLayers) {
    for (int layer = 0; layer < config.num_layers; ++layer) layers.push_back(layer);
    config.sources["window"] =
        root.contains("sliding_window") ? "sliding_window" : "what the family has by default";
  } else {
    constexpr int kMaxWindowLayers = 28;  // of transformers, where the key is missing
    const int first = std::max(0, fields.Int("max_window_layers").value_or(kMaxWindowLayers));
    for (int layer = first; layer < config.num_layers; ++layer) layers.push_back(layer);
    config.sources["window"] = "sliding_window and max_window_layers";
  }
  if (layers.empty()) return;
  config.layer_windows.assign(config.num_layers, 0);
  for (const int32_t layer : layers) config.layer_windows[layer] = window;
}

void ReadBiasesAndNorms(JsonFields& fields, ModelConfig& config) {
  const ModelFamily& family = *config.family;
  if (family.attention_bias_key != nullptr) {
    config.qkv_bias = config.out_bias = fields.Bool(family.attention_bias_key).value_or(false);
    config.sources["attention_bias"] = family.attention_bias_key;
  }
  if (family.qkv_bias) {
    config.qkv_bias = true;
    config.sources["attention_bias"] = "what the family always has";
  }
  if (family.mlp_bias_key != nullptr) {
    config.mlp_bias = fields.Bool(family.mlp_bias_key).value_or(false);
    config.sources["mlp_bias"] = family.mlp_bias_key;
  }
  config.qk_norm = family.qk_norm;
  if (family.qk_norm) config.sources["qk_norm"] = "what the family always has";
  const std::optional<bool> tied = fields.Bool("tie_word_embeddings");
  config.tie_word_embeddings = tied.value_or(family.tied_by_default);
  config.sources["tied"] =
      tied.has_value() ? "tie_word_embeddings" : "what the family has by default";
}

absl::StatusOr<const ModelFamily*> ReadFamily(JsonFields& fields, const std::string& path) {
  std::string architecture;
  if (const json* list = fields.Find("architectures"); list != nullptr) {
    if (!list->is_array() || list->size() != 1 || !list->front().is_string()) {
      fields.Fail("'architectures' is not an array of one string");
      return fields.status();
    }
    architecture = *list->front().get_ptr<const std::string*>();
  }
  const std::string model_type = fields.String("model_type").value_or("");
  if (!fields.status().ok()) return fields.status();
  const ModelFamily* family = FindHfFamily(architecture, model_type);
  if (family != nullptr) return family;
  return absl::UnimplementedError(absl::StrCat(
      path, ": the architecture ", Quoted(architecture.empty() ? model_type : architecture),
      " is not supported; expected one of ", SupportedHfArchitectures()));
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json_text, const std::string& path) {
  absl::StatusOr<json> parsed = ParseJson(json_text, path);
  if (!parsed.ok()) return parsed.status();
  const json& root = *parsed;
  if (!root.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a JSON object"));
  }
  JsonFields fields(root, path);
  absl::StatusOr<const ModelFamily*> family = ReadFamily(fields, path);
  if (!family.ok()) return family.status();

  ModelConfig config;
  config.family = *family;
  config.num_layers = fields.RequiredInt("num_hidden_layers");
  config.hidden_size = fields.RequiredInt("hidden_size");
  config.num_heads = fields.RequiredInt("num_attention_heads");
  config.num_kv_heads = fields.Int("num_key_value_heads").value_or(config.num_heads);
  config.intermediate_size = fields.RequiredInt("intermediate_size");
  config.vocab_size = fields.RequiredInt("vocab_size");
  config.max_position_embeddings = fields.RequiredInt("max_position_embeddings");
  config.norm_eps = fields.Number("rms_norm_eps").value_or(1e-6);  // transformers' default
  ReadBiasesAndNorms(fields, config);
  config.bos_token_id = fields.Int("bos_token_id");
  config.eos_token_ids = fields.TokenIds("eos_token_id");
  const std::optional<int> head_dim = fields.Int("head_dim");
  if (head_dim.has_value()) {
    config.head_dim = *head_dim;
  } else if (config.num_heads > 0 && config.hidden_size % config.num_heads == 0) {
    config.head_dim = config.hidden_size / config.num_heads;
  } else {
    fields.Fail(absl::StrCat("hidden_size ", config.hidden_size, " is not a multiple of ",
                             "num_attention_heads ", config.num_heads,
                             ", and no head_dim is given"));
  }
  RefuseUnsupported(fields);
  const std::optional<double> theta = fields.Number("rope_theta");
  config.rope.theta = theta.value_or(config.family->default_theta);
  config.sources["rope"] = theta.has_value() ? "rope_theta" : "what the family has by default";
  if (config.num_layers < 0 || config.num_layers > kMaxLayers) {
    return CheckModelConfig(config, path);  // before there is anything for each of them
  }
  ReadLayersWithoutRope(fields, config);
  ReadWindows(root, fields, config);
  if (!fields.status().ok()) return fields.status();
  // The second is what older compressed-tensors wrote.
  for (const char* key : {"quantization_config", "compression_config"}) {
    const json* quantization = fields.Find(key);
    if (quantization == nullptr) continue;
    absl::Status status = ReadQuantization(*quantization, absl::StrCat(path, ": ", key), config);
    if (!status.ok()) return status;
  }

  // `rope_parameters` since transformers 5, `rope_scaling` before.
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json* scaling = fields.Find(key);
    if (scaling == nullptr) continue;
    absl::Status status = ReadRopeScaling(*scaling, absl::StrCat(path, ": ", key), config);
    if (!status.ok()) return status;
    config.sources["rope"] = key;
    break;
  }
  if (absl::Status status = CheckModelConfig(config, path); !status.ok()) return status;
  return config;
}

}  // namespace quire
