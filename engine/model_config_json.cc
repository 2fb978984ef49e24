// Reading ModelConfig from config.json.
#include <cmath>
#include <string>

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

// What this family never has, but a config.json may ask for.
void RefuseUnsupported(const json& root, JsonFields& fields) {
  const std::string activation = fields.String("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    fields.Fail(
        absl::StrCat("hidden_act ", Quoted(activation), " is not supported; expected 'silu'"));
  }
  if (fields.Find("quantization_config") != nullptr) {
    fields.Fail("'quantization_config' is not supported; expected unquantised weights, or a GGUF");
  }
  if (fields.Number("partial_rotary_factor").value_or(1) != 1) {
    fields.Fail("'partial_rotary_factor' other than 1 is not supported");
  }
  const auto layer_types = root.find("layer_types");
  if (layer_types == root.end() || !layer_types->is_array()) return;
  for (const json& type : *layer_types) {
    if (!type.is_string() || type != "full_attention") {
      fields.Fail(
          "'layer_types' has something other than 'full_attention', which is not supported");
    }
  }
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
  config.tie_word_embeddings = fields.Bool("tie_word_embeddings").value_or(false);
  if (config.family->attention_bias_key != nullptr) {
    config.attention_bias = fields.Bool(config.family->attention_bias_key).value_or(false);
  }
  if (config.family->mlp_bias_key != nullptr) {
    config.mlp_bias = fields.Bool(config.family->mlp_bias_key).value_or(false);
  }
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
  RefuseUnsupported(root, fields);
  config.rope.theta = fields.Number("rope_theta").value_or(config.rope.theta);
  if (!fields.status().ok()) return fields.status();

  // `rope_parameters` since transformers 5, `rope_scaling` before.
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json* scaling = fields.Find(key);
    if (scaling == nullptr) continue;
    absl::Status status = ReadRopeScaling(*scaling, absl::StrCat(path, ": ", key), config);
    if (!status.ok()) return status;
    break;
  }
  if (absl::Status status = CheckModelConfig(config, path); !status.ok()) return status;
  return config;
}

}  // namespace quire
