#include "engine/transformer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "engine/rope.h"
#include "engine/weight_plan.h"

namespace quire {

// Packs tensors into the backend and keeps the first error, so that the layers below read as a
// list of what goes where.
class Transformer::Loader {
 public:
  Loader(const ModelConfig& config, RowOrder qk_order, WeightQuantization quantization,
         Backend& backend)
      : config_(config), qk_order_(qk_order), quantization_(quantization), backend_(backend) {}

  const absl::Status& status() const { return status_; }

  VectorId Vector(const FileTensor* tensor) {
    if (tensor == nullptr || !status_.ok()) return {};
    return Keep(backend_.PackVector({{.view = tensor->view}}), *tensor);
  }
  MatrixId Matrix(const FileTensor& tensor, MatrixRole role = MatrixRole::kLayer) {
    if (!status_.ok()) return {};
    return Keep(backend_.PackMatrix({Part(tensor, role)}), tensor);
  }
  MatrixId GateUp(const LayerWeights& weights) {
    if (!status_.ok()) return {};
    return Keep(backend_.PackGateUp(Part(*weights.gate), Part(*weights.up)), *weights.gate);
  }
  MatrixId Qkv(const LayerWeights& weights) {
    if (!status_.ok()) return {};
    return Keep(backend_.PackMatrix({Rotated(*weights.q), Rotated(*weights.k), Part(*weights.v)}),
                *weights.q);
  }
  VectorId QkvBias(const LayerWeights& weights) {
    if (weights.q_bias == nullptr || !status_.ok()) return {};
    return Keep(
        backend_.PackVector(
            {Rotated(*weights.q_bias), Rotated(*weights.k_bias), {.view = weights.v_bias->view}}),
        *weights.q_bias);
  }
  RopeId Rope(const FileTensor* factors, int max_model_len) {
    if (!status_.ok()) return {};
    RopeFrequencies rope = BuildRopeFrequencies(config_, max_model_len);
    if (factors != nullptr) {
      status_ = Divide(*factors, rope.inv_freq);
      if (!status_.ok()) return {};
    }
    absl::StatusOr<RopeId> id = backend_.MakeRope(rope.inv_freq, rope.scale, max_model_len);
    if (id.ok()) return *id;
    status_ = id.status();
    return {};
  }

 private:
  MatrixPart Part(const FileTensor& tensor, MatrixRole role = MatrixRole::kLayer) const {
    return {.view = tensor.view, .quantize_to = QuantizeTo(quantization_, role)};
  }
  MatrixPart Rotated(const FileTensor& tensor) const {
    MatrixPart part = Part(tensor);
    part.order = qk_order_;
    part.head_dim = config_.head_dim;
    return part;
  }
  // llama.cpp's form of Llama 3's scaling: one divisor per frequency.
  static absl::Status Divide(const FileTensor& factors, std::vector<double>& inv_freq) {
    if (factors.view.dtype != DType::kF32) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(factors.name), " is ",
                                                     InfoOf(factors.view.dtype).name,
                                                     "; expected F32"));
    }
    for (size_t i = 0; i < inv_freq.size(); ++i) {
      float factor;
      std::memcpy(&factor, factors.view.data + i * sizeof(factor), sizeof(factor));
      if (!(factor > 0 && std::isfinite(factor))) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(factors.name),
                                                       ", element ", i, " is ", factor,
                                                       "; expected a number above 0"));
      }
      inv_freq[i] /= factor;
    }
    return absl::OkStatus();
  }
  template <typename Id>
  Id Keep(const absl::StatusOr<Id>& id, const FileTensor& tensor) {
    if (id.ok()) return *id;
    status_ = absl::Status(id.status().code(), absl::StrCat("packing tensor ", Quoted(tensor.name),
                                                            ": ", id.status().message()));
    return {};
  }

  const ModelConfig& config_;
  const RowOrder qk_order_;
  const WeightQuantization quantization_;
  Backend& backend_;
  absl::Status status_;
};

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Load(const ModelFiles& files,
                                                               Backend& backend, int max_model_len,
                                                               WeightQuantization quantization) {
  const ModelConfig& config = files.config();
  if (max_model_len < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_model_len is ", max_model_len, "; expected at least 1"));
  }
  absl::StatusOr<ModelWeights> weights = FindWeights(files);
  if (!weights.ok()) return weights.status();
  std::unique_ptr<Transformer> model(new Transformer());
  model->shape_ = ShapeOf(config);
  if (absl::Status status = backend.Supports(model->shape_); !status.ok()) return status;

  Loader loader(config, weights->qk_order, quantization, backend);
  const RopeId rope = loader.Rope(weights->rope_factors, max_model_len);
  const std::vector<int32_t>& without_rope = config.layers_without_rope;
  model->embedding_ = loader.Matrix(*weights->embedding, MatrixRole::kVocabulary);
  for (int i = 0; i < config.num_layers; ++i) {
    const LayerWeights& layer = weights->layers[i];
    const bool has_rope = !std::binary_search(without_rope.begin(), without_rope.end(), i);
    model->layers_.push_back({.qkv = {.layer = i,
                                      .norm = loader.Vector(layer.attention_norm),
                                      .qkv = loader.Qkv(layer),
                                      .bias = loader.QkvBias(layer),
                                      .q_norm = loader.Vector(layer.q_norm),
                                      .k_norm = loader.Vector(layer.k_norm),
                                      .rope = has_rope ? rope : RopeId{}},
                              .out = loader.Matrix(*layer.out),
                              .out_bias = loader.Vector(layer.out_bias),
                              .mlp = {.norm = loader.Vector(layer.mlp_norm),
                                      .gate_up = loader.GateUp(layer),
                                      .gate_bias = loader.Vector(layer.gate_bias),
                                      .up_bias = loader.Vector(layer.up_bias),
                                      .down = loader.Matrix(*layer.down),
                                      .down_bias = loader.Vector(layer.down_bias)}});
  }
  model->final_norm_ = loader.Vector(weights->final_norm);
  model->head_ = config.tie_word_embeddings
                     ? model->embedding_
                     : loader.Matrix(*weights->head, MatrixRole::kVocabulary);
  if (!loader.status().ok()) {
    return absl::Status(loader.status().code(),
                        absl::StrCat(files.path(), ": ", loader.status().message()));
  }
  return model;
}

void Transformer::Forward(Backend& backend, const StepShape& step) const {
  backend.CopyBlocks();
  backend.Embed(embedding_);
  for (const Layer& layer : layers_) {
    backend.NormQkvRopeAppend(layer.qkv);
    backend.Attend(layer.qkv.layer);
    backend.OutProjAdd(layer.out, layer.out_bias);
    backend.NormMlpAdd(layer.mlp);
  }
  backend.LogitsOfRows(final_norm_, head_);
  if (step.num_samples > 0) backend.Sample();
  if (step.num_logprobs > 0) backend.Logprobs();
}

}  // namespace quire
