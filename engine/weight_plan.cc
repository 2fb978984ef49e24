#include "engine/weight_plan.h"

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "kernels/cpu/weight_format.h"

namespace quire {
namespace {

void ForEachMatrix(const ModelWeights& weights,
                   absl::FunctionRef<void(const FileTensor&, MatrixRole)> fn) {
  fn(*weights.embedding, MatrixRole::kVocabulary);
  if (weights.head != weights.embedding) fn(*weights.head, MatrixRole::kVocabulary);
  for (const LayerWeights& layer : weights.layers) {
    for (const FileTensor* matrix :
         {layer.q, layer.k, layer.v, layer.out, layer.gate, layer.up, layer.down}) {
      fn(*matrix, MatrixRole::kLayer);
    }
  }
}

NumericsMode BestNumerics(CpuIsa isa, bool quantized) {
  if (isa == CpuIsa::kAmx) return NumericsMode::kBf16x32;
  return quantized ? NumericsMode::kA8g32 : NumericsMode::kBf16x2;
}

}  // namespace

std::optional<DType> QuantizeTo(WeightQuantization quantization, MatrixRole role) {
  switch (quantization) {
    case WeightQuantization::kNone:
      return std::nullopt;
    case WeightQuantization::kInt8:
      return DType::kQ8_0;
    case WeightQuantization::kInt4:
      return role == MatrixRole::kVocabulary ? DType::kQ8_0 : DType::kQ4_0;
  }
  return std::nullopt;
}

absl::StatusOr<WeightPlan> PlanWeights(const EngineConfig& config, const ModelWeights& weights,
                                       CpuIsa isa) {
  const bool quantizes = config.quantize != WeightQuantization::kNone;
  bool quantized = quantizes;
  bool has_plain = false;
  ForEachMatrix(weights, [&](const FileTensor& tensor, MatrixRole) {
    (IsQuantized(tensor.view.dtype) ? quantized : has_plain) = true;
  });
  if (quantizes && !has_plain) {
    return absl::FailedPreconditionError(
        "--quantize rounds weights that are not quantised, and all of this model are; leave it "
        "out");
  }
  WeightPlan plan;
  plan.quantization = config.quantize;
  plan.numerics = config.numerics.value_or(BestNumerics(isa, quantized));
  if (TakesInt8(plan.numerics) && !quantized) {
    return absl::FailedPreconditionError(
        absl::StrCat("--numerics ", NameOf(plan.numerics),
                     " computes with quantised weights, and this model has none; add --quantize "
                     "int8 or int4, or leave --numerics out"));
  }
  if (plan.numerics == NumericsMode::kBf16x2 && quantizes) {
    return absl::FailedPreconditionError(
        "--quantize is not for --numerics bf16x2, which holds all weights as bf16; leave one of "
        "the two out");
  }
  ForEachMatrix(weights, [&](const FileTensor& tensor, MatrixRole role) {
    if (role == MatrixRole::kLayer) {
      plan.num_layer_weights += tensor.view.rows * tensor.view.cols;
    }
    plan.bytes +=
        PackedWeightBytes(plan.numerics, tensor.view.dtype, QuantizeTo(config.quantize, role),
                          tensor.view.rows, tensor.view.cols);
  });
  plan.num_head_weights = weights.head->view.rows * weights.head->view.cols;
  return plan;
}

}  // namespace quire
