#include "engine/weights.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace quire {
namespace {

// What a dimension of a tensor is, and what switches a tensor on.
enum class Dim : uint8_t { kNone, kHidden, kQ, kKv, kIntermediate, kVocab, kHead, kHalfHead };
enum class When : uint8_t { kAlways, kQkvBias, kOutBias, kMlpBias, kQkNorm, kUntied, kIfPresent };

// A row of the table: one tensor by role. In names, # is the index of the layer. nullptr: this kind
// of file has no such tensor.
template <typename Owner>
struct Role {
  const FileTensor* Owner::*member;
  const char* hf_name;
  const char* gguf_name;
  Dim rows;
  Dim cols;  // kNone: a vector of `rows` elements
  When when = When::kAlways;
};

constexpr Role<ModelWeights> kModelRoles[] = {
    {&ModelWeights::embedding, "model.embed_tokens.weight", "token_embd.weight", Dim::kVocab,
     Dim::kHidden},
    {&ModelWeights::final_norm, "model.norm.weight", "output_norm.weight", Dim::kHidden,
     Dim::kNone},
    {&ModelWeights::head, "lm_head.weight", "output.weight", Dim::kVocab, Dim::kHidden,
     When::kUntied},
    {&ModelWeights::rope_factors, nullptr, "rope_freqs.weight", Dim::kHalfHead, Dim::kNone,
     When::kIfPresent},
};

constexpr Role<LayerWeights> kLayerRoles[] = {
    {&LayerWeights::attention_norm, "model.layers.#.input_layernorm.weight",
     "blk.#.attn_norm.weight", Dim::kHidden, Dim::kNone},
    {&LayerWeights::q, "model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", Dim::kQ,
     Dim::kHidden},
    {&LayerWeights::k, "model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", Dim::kKv,
     Dim::kHidden},
    {&LayerWeights::v, "model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", Dim::kKv,
     Dim::kHidden},
    {&LayerWeights::q_bias, "model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", Dim::kQ,
     Dim::kNone, When::kQkvBias},
    {&LayerWeights::k_bias, "model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", Dim::kKv,
     Dim::kNone, When::kQkvBias},
    {&LayerWeights::v_bias, "model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", Dim::kKv,
     Dim::kNone, When::kQkvBias},
    {&LayerWeights::q_norm, "model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight",
     Dim::kHead, Dim::kNone, When::kQkNorm},
    {&LayerWeights::k_norm, "model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight",
     Dim::kHead, Dim::kNone, When::kQkNorm},
    {&LayerWeights::out, "model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight",
     Dim::kHidden, Dim::kQ},
    {&LayerWeights::out_bias, "model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias",
     Dim::kHidden, Dim::kNone, When::kOutBias},
    {&LayerWeights::mlp_norm, "model.layers.#.post_attention_layernorm.weight",
     "blk.#.ffn_norm.weight", Dim::kHidden, Dim::kNone},
    {&LayerWeights::gate, "model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight",
     Dim::kIntermediate, Dim::kHidden},
    {&LayerWeights::up, "model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight",
     Dim::kIntermediate, Dim::kHidden},
    {&LayerWeights::down, "model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight",
     Dim::kHidden, Dim::kIntermediate},
    {&LayerWeights::gate_bias, "model.layers.#.mlp.gate_proj.bias", "blk.#.ffn_gate.bias",
     Dim::kIntermediate, Dim::kNone, When::kMlpBias},
    {&LayerWeights::up_bias, "model.layers.#.mlp.up_proj.bias", "blk.#.ffn_up.bias",
     Dim::kIntermediate, Dim::kNone, When::kMlpBias},
    {&LayerWeights::down_bias, "model.layers.#.mlp.down_proj.bias", "blk.#.ffn_down.bias",
     Dim::kHidden, Dim::kNone, When::kMlpBias},
};

// Tensors that old exporters wrote and nobody reads: frequencies follow from the configuration.
// A tied model may also come with the matrix it does not need. FP8 checkpoints have scales for
// activations, which are not quantised here, and those of the weights, which ModelFiles has read.
bool IsHarmless(absl::string_view name, const ModelFiles& files) {
  const ModelConfig& config = files.config();
  absl::string_view weight = name;
  if (absl::ConsumeSuffix(&weight, "_scale") || absl::ConsumeSuffix(&weight, "_scale_inv")) {
    const FileTensor* scaled = files.FindTensor(weight);
    if (scaled != nullptr && scaled->view.dtype == DType::kF8E4M3) return true;
  }
  if (absl::EndsWith(name, ".input_scale")) return true;
  return absl::EndsWith(name, ".rotary_emb.inv_freq") || absl::EndsWith(name, ".attn_rot_embd") ||
         (config.tie_word_embeddings && name == "lm_head.weight");
}

// Takes tensors out of the files role by role, and remembers which.
class Finder {
 public:
  explicit Finder(const ModelFiles& files) : files_(files), config_(files.config()) {}

  template <typename Owner>
  absl::Status Find(const Role<Owner>& role, int layer, Owner& owner) {
    const char* pattern = files_.gguf() != nullptr ? role.gguf_name : role.hf_name;
    if (pattern == nullptr || !IsOn(role.when)) return absl::OkStatus();
    const std::string name = absl::StrReplaceAll(pattern, {{"#", absl::StrCat(layer)}});
    std::vector<int64_t> expected = {SizeOf(role.rows)};
    if (role.cols != Dim::kNone) expected.push_back(SizeOf(role.cols));
    const FileTensor* tensor = files_.FindTensor(name);
    if (tensor == nullptr) {
      if (role.when == When::kIfPresent) return absl::OkStatus();
      return Bad(absl::StrCat("tensor ", Quoted(name), " of shape [", absl::StrJoin(expected, ", "),
                              "] is missing"));
    }
    if (tensor->shape != expected) {
      return Bad(absl::StrCat("tensor ", Quoted(name), " has the shape [",
                              absl::StrJoin(tensor->shape, ", "), "]; the configuration expects [",
                              absl::StrJoin(expected, ", "), "]"));
    }
    owner.*role.member = tensor;
    used_.insert(tensor);
    return absl::OkStatus();
  }

  absl::Status CheckNoneLeft() const {
    for (const FileTensor* tensor : files_.tensors()) {
      if (used_.contains(tensor) || IsHarmless(tensor->name, files_)) continue;
      return Bad(absl::StrCat("tensor ", Quoted(tensor->name), " of shape [",
                              absl::StrJoin(tensor->shape, ", "),
                              "] is left over; the configuration has no place for it"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Bad(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(files_.path(), ": ", what));
  }
  bool IsOn(When when) const {
    switch (when) {
      case When::kAlways:
      case When::kIfPresent:
        return true;
      case When::kQkvBias:
        return config_.qkv_bias;
      case When::kOutBias:
        return config_.out_bias;
      case When::kQkNorm:
        return config_.qk_norm;
      case When::kMlpBias:
        return config_.mlp_bias;
      case When::kUntied:
        return !config_.tie_word_embeddings;
    }
    return true;
  }
  int64_t SizeOf(Dim dim) const {
    switch (dim) {
      case Dim::kNone:
        return 0;
      case Dim::kHidden:
        return config_.hidden_size;
      case Dim::kQ:
        return int64_t{config_.num_heads} * config_.head_dim;
      case Dim::kKv:
        return int64_t{config_.num_kv_heads} * config_.head_dim;
      case Dim::kIntermediate:
        return config_.intermediate_size;
      case Dim::kVocab:
        return config_.vocab_size;
      case Dim::kHead:
        return config_.head_dim;
      case Dim::kHalfHead:
        return config_.head_dim / 2;
    }
    return 0;
  }

  const ModelFiles& files_;
  const ModelConfig& config_;
  absl::flat_hash_set<const FileTensor*> used_;
};

}  // namespace

absl::StatusOr<ModelWeights> FindWeights(const ModelFiles& files) {
  const ModelConfig& config = files.config();
  Finder finder(files);
  ModelWeights weights;
  for (const Role<ModelWeights>& role : kModelRoles) {
    if (absl::Status status = finder.Find(role, 0, weights); !status.ok()) return status;
  }
  if (config.tie_word_embeddings) weights.head = weights.embedding;
  if (files.gguf() != nullptr) weights.qk_order = config.family->gguf_qk_order;
  weights.layers.resize(config.num_layers);
  for (int i = 0; i < config.num_layers; ++i) {
    for (const Role<LayerWeights>& role : kLayerRoles) {
      absl::Status status = finder.Find(role, i, weights.layers[i]);
      if (!status.ok()) return status;
    }
  }
  if (absl::Status status = finder.CheckNoneLeft(); !status.ok()) return status;
  return weights;
}

}  // namespace quire
