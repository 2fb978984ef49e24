#include "engine/model_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sys/stat.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "engine/gguf_shards.h"
#include "engine/json_file.h"

namespace quire {
namespace {

// Positions are 32-bit numbers, and no table of rotations would hold more.
constexpr int kMaxPositions = 1 << 28;

struct Bound {
  const char* name;
  int value;
  int max;
};

absl::Status CheckRope(const ModelConfig& config, const std::string& path) {
  const RopeConfig& rope = config.rope;
  const auto bad = [&](const char* name, double value, const char* expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": rope ", name, " is ", value, "; expected ", expected));
  };
  // Comparisons are written so that NaN fails them.
  if (!(rope.theta > 1 && rope.theta <= 1e15)) return bad("theta", rope.theta, "1 < theta <= 1e15");
  if (!(rope.factor >= 1 && rope.factor <= 1e6)) return bad("factor", rope.factor, "1 to 1e6");
  if (rope.kind == RopeKind::kDynamic && config.head_dim < 4) {
    return bad("head_dim", config.head_dim, "at least 4 for dynamic scaling");
  }
  if (rope.kind != RopeKind::kLlama3 && rope.kind != RopeKind::kYarn) return absl::OkStatus();
  if (rope.original_max_position < 1) {
    return bad("original_max_position_embeddings", rope.original_max_position, "at least 1");
  }
  if (rope.kind == RopeKind::kLlama3 &&
      !(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": rope low_freq_factor is ", rope.low_freq_factor,
                     " and high_freq_factor ", rope.high_freq_factor, "; expected 0 < low < high"));
  }
  if (rope.kind == RopeKind::kYarn) {
    if (!(rope.beta_slow > 0 && rope.beta_fast >= rope.beta_slow)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": rope beta_fast is ", rope.beta_fast,
                                                     " and beta_slow ", rope.beta_slow,
                                                     "; expected 0 < beta_slow <= beta_fast"));
    }
    if (!(rope.attention_factor > 0 && rope.attention_factor <= 100)) {
      return bad("attention_factor", rope.attention_factor, "above 0, at most 100");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTokenId(const char* name, int32_t id, int vocab_size, const std::string& path) {
  if (id >= 0 && id < vocab_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": ", name, " is ", id, "; expected 0 to vocab_size - 1 = ", vocab_size - 1));
}

}  // namespace

absl::Status CheckModelConfig(const ModelConfig& config, const std::string& path) {
  // Several times what the largest models have. With these, sizes of matrices fit in 64 bits.
  const Bound bounds[] = {
      {"the number of layers", config.num_layers, kMaxLayers},
      {"hidden_size", config.hidden_size, 1 << 17},
      {"the number of attention heads", config.num_heads, 1024},
      {"the number of key-value heads", config.num_kv_heads, 1024},
      {"head_dim", config.head_dim, 1024},
      {"intermediate_size", config.intermediate_size, 1 << 20},
      {"vocab_size", config.vocab_size, 1 << 24},
      {"max_position_embeddings", config.max_position_embeddings, kMaxPositions},
  };
  for (const Bound& bound : bounds) {
    if (bound.value < 1 || bound.value > bound.max) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", bound.name, " is ", bound.value, "; expected 1 to ", bound.max));
    }
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", config.num_heads, " attention heads cannot share ",
                     config.num_kv_heads, " key-value heads; expected a divisor"));
  }
  if (config.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": head_dim is ", config.head_dim,
                                                   "; expected an even number, for rope"));
  }
  for (const int32_t window : config.layer_windows) {
    if (window < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": sliding_window is ", window, "; expected at least 1"));
    }
  }
  if (!(config.norm_eps > 0 && config.norm_eps < 1)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": rms_norm_eps is ", config.norm_eps,
                                                   "; expected above 0 and below 1"));
  }
  if (config.bos_token_id.has_value()) {
    absl::Status status =
        CheckTokenId("bos_token_id", *config.bos_token_id, config.vocab_size, path);
    if (!status.ok()) return status;
  }
  for (const int32_t id : config.eos_token_ids) {
    absl::Status status = CheckTokenId("eos_token_id", id, config.vocab_size, path);
    if (!status.ok()) return status;
  }
  return CheckRope(config, path);
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot open the model"));
  }
  if (!S_ISDIR(info.st_mode)) {
    absl::StatusOr<std::unique_ptr<GgufShards>> gguf = GgufShards::Open(path);
    if (!gguf.ok()) return gguf.status();
    return ModelConfigOfGguf(**gguf);
  }
  const std::string config_path = absl::StrCat(path, "/config.json");
  constexpr size_t kMaxConfigBytes = size_t{4} << 20;
  absl::StatusOr<std::string> text = ReadTextFile(config_path, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(
        config_path, ": no such file; expected a Hugging Face model directory or a .gguf file"));
  }
  if (!text.ok()) return text.status();
  return ParseModelConfig(*text, config_path);
}

ModelShape ShapeOf(const ModelConfig& config) {
  return {.num_layers = config.num_layers,
          .hidden_size = config.hidden_size,
          .num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .intermediate_size = config.intermediate_size,
          .vocab_size = config.vocab_size,
          .norm_eps = static_cast<float>(config.norm_eps)};
}

int LongestModelLen(const ModelConfig& config) {
  const double stretch = config.rope.kind == RopeKind::kDynamic ? config.rope.factor : 1;
  return static_cast<int>(
      std::min<double>(kMaxPositions, std::floor(config.max_position_embeddings * stretch)));
}

std::vector<int32_t> EveryNthLayer(int n, int num_layers) {
  std::vector<int32_t> layers;
  for (int layer = n - 1; layer < num_layers; layer += n) layers.push_back(layer);
  return layers;
}

std::string RangesText(absl::Span<const int32_t> numbers) {
  if (numbers.empty()) return "none";
  std::vector<std::string> ranges;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    ranges.push_back(end - i == 1 ? absl::StrCat(numbers[i])
                                  : absl::StrCat(numbers[i], "-", numbers[end - 1]));
    i = end;
  }
  return absl::StrJoin(ranges, ", ");
}

std::string WindowsText(const ModelConfig& config) {
  std::map<int32_t, std::vector<int32_t>> layers_of_window;
  for (size_t layer = 0; layer < config.layer_windows.size(); ++layer) {
    const int32_t window = config.layer_windows[layer];
    if (window > 0) layers_of_window[window].push_back(static_cast<int32_t>(layer));
  }
  if (layers_of_window.empty()) return "none";
  std::vector<std::string> parts;
  for (const auto& [window, layers] : layers_of_window) {
    const bool all = static_cast<int>(layers.size()) == config.num_layers;
    parts.push_back(
        absl::StrCat(window, all ? " in all layers" : " in layers " + RangesText(layers)));
  }
  return absl::StrJoin(parts, "; ");
}

const char* NameOf(RopeKind kind) {
  switch (kind) {
    case RopeKind::kDefault:
      return "default";
    case RopeKind::kLinear:
      return "linear";
    case RopeKind::kDynamic:
      return "dynamic";
    case RopeKind::kLlama3:
      return "llama3";
    case RopeKind::kYarn:
      return "yarn";
  }
  return "?";
}

std::string ToText(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  std::string text = absl::StrCat(
      config.family->name, " layers=", config.num_layers, " hidden=", config.hidden_size,
      " heads=", config.num_heads, " kv_heads=", config.num_kv_heads, " head_dim=", config.head_dim,
      " intermediate=", config.intermediate_size, " vocab=", config.vocab_size,
      " max_position=", config.max_position_embeddings, " eps=", config.norm_eps,
      config.tie_word_embeddings ? " tied" : "", config.qkv_bias ? " qkv_bias" : "",
      config.out_bias ? " out_bias" : "", config.mlp_bias ? " mlp_bias" : "",
      config.qk_norm ? " qk_norm" : "");
  if (!config.layer_windows.empty()) absl::StrAppend(&text, " window=", WindowsText(config));
  if (!config.layers_without_rope.empty()) {
    absl::StrAppend(&text, " no_rope=", RangesText(config.layers_without_rope));
  }
  absl::StrAppend(&text, " rope=", NameOf(rope.kind), " theta=", rope.theta);
  if (rope.kind != RopeKind::kDefault) absl::StrAppend(&text, " factor=", rope.factor);
  if (rope.original_max_position > 0) {
    absl::StrAppend(&text, " original_max_position=", rope.original_max_position);
  }
  if (rope.kind == RopeKind::kLlama3) {
    absl::StrAppend(&text, " low_freq=", rope.low_freq_factor,
                    " high_freq=", rope.high_freq_factor);
  }
  if (rope.kind == RopeKind::kYarn) {
    absl::StrAppend(&text, " beta_fast=", rope.beta_fast, " beta_slow=", rope.beta_slow,
                    rope.truncate ? "" : " untruncated",
                    " attention_factor=", rope.attention_factor);
  }
  if (config.bos_token_id.has_value()) absl::StrAppend(&text, " bos=", *config.bos_token_id);
  absl::StrAppend(&text, " eos=[", absl::StrJoin(config.eos_token_ids, ","), "]");
  return text;
}

}  // namespace quire
