#include "tests/kernels/scalar_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/check.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/attention.h"
#include "kernels/cpu/reference/gemm.h"
#include "kernels/cpu/reference/math.h"
#include "kernels/cpu/reference/norm.h"
#include "kernels/cpu/reference/rope.h"
#include "kernels/cpu/reference/unpack.h"
#include "kernels/cpu/weight_quantization.h"

namespace quire {
namespace {

constexpr double kRopeScale = 1.25;  // not 1, so that it is seen

WeightView VectorView(const std::vector<float>& vector) {
  return {reinterpret_cast<const std::byte*>(vector.data()), DType::kF32, 1,
          static_cast<int64_t>(vector.size())};
}

const float* DataOrNull(const std::vector<float>& vector) {
  return vector.empty() ? nullptr : vector.data();
}

std::vector<float> NormRows(const std::vector<float>& rows, const std::vector<float>& weight,
                            float eps) {
  const size_t cols = weight.size();
  std::vector<float> out(rows.size());
  for (size_t i = 0; i < rows.size(); i += cols) {
    reference::RmsNormHead(&rows[i], weight.data(), static_cast<int>(cols), eps, &out[i]);
  }
  return out;
}

}  // namespace

WeightView ScalarDecoder::Matrix::View() const {
  return {reinterpret_cast<const std::byte*>(file.data()), type, rows, cols};
}

ScalarDecoder::ScalarDecoder(const Spec& spec) : spec_(spec), next_seed_(spec.seed) {
  const ModelShape& s = spec.shape;
  const int qkv = (s.num_heads + 2 * s.num_kv_heads) * s.head_dim;
  for (int i = 0; i < s.head_dim / 2; ++i) {
    inv_freq_.push_back(std::pow(10000.0, -2.0 * i / s.head_dim));
  }
  embedding_ = RandomMatrix(NextType(), s.vocab_size, s.hidden_size, 1.0f);
  final_norm_ = RandomVector(s.hidden_size, 1.0f, 0.2f);
  const float scale = 1 / std::sqrt(static_cast<float>(s.hidden_size));
  for (int i = 0; i < s.num_layers; ++i) {
    Layer layer;
    layer.attention_norm = RandomVector(s.hidden_size, 1.0f, 0.2f);
    layer.mlp_norm = RandomVector(s.hidden_size, 1.0f, 0.2f);
    layer.q = RandomMatrix(NextType(), s.num_heads * s.head_dim, s.hidden_size, 2 * scale);
    layer.k = RandomMatrix(NextType(), s.num_kv_heads * s.head_dim, s.hidden_size, 2 * scale);
    layer.v = RandomMatrix(NextType(), s.num_kv_heads * s.head_dim, s.hidden_size, scale);
    layer.out = RandomMatrix(NextType(), s.hidden_size, s.num_heads * s.head_dim, scale);
    const DType mlp_type = NextType();  // gate and up have one
    layer.gate = RandomMatrix(mlp_type, s.intermediate_size, s.hidden_size, scale);
    layer.up = RandomMatrix(mlp_type, s.intermediate_size, s.hidden_size, scale);
    layer.down = RandomMatrix(NextType(), s.hidden_size, s.intermediate_size, scale);
    if (spec.biases) {
      layer.qkv_bias = RandomVector(qkv, 0, 0.1f);
      layer.out_bias = RandomVector(s.hidden_size, 0, 0.1f);
      layer.gate_bias = RandomVector(s.intermediate_size, 0, 0.1f);
      layer.up_bias = RandomVector(s.intermediate_size, 0, 0.1f);
      layer.down_bias = RandomVector(s.hidden_size, 0, 0.1f);
    }
    if (spec.qk_norms) {
      layer.q_norm = RandomVector(s.head_dim, 1.5f, 0.2f);
      layer.k_norm = RandomVector(s.head_dim, 1.5f, 0.2f);
    }
    layers_.push_back(std::move(layer));
  }
}

ScalarDecoder::Matrix ScalarDecoder::RandomMatrix(DType type, int rows, int cols, float scale) {
  Matrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.type = type;
  const std::vector<float> values = RandomVector(rows * cols, 0, scale);
  const DTypeInfo info = InfoOf(matrix.type);
  const int64_t row_bytes = int64_t{cols} / info.block_elems * info.block_bytes;
  matrix.file.resize(rows * row_bytes);
  matrix.wide.resize(values.size());
  for (int row = 0; row < rows; ++row) {
    const float* const x = &values[size_t{1} * row * cols];
    uint8_t* const out = &matrix.file[row * row_bytes];
    if (matrix.type == DType::kF32) {
      std::memcpy(out, x, row_bytes);
    } else {
      QuantizeWeightRow(matrix.type, x, cols, out);
    }
    reference::Dequantize(matrix.View(), row, &matrix.wide[size_t{1} * row * cols]);
  }
  for (const float x : matrix.wide) matrix.bf16.push_back(RneBf16(x));
  return matrix;
}

std::vector<float> ScalarDecoder::Multiply(const std::vector<float>& x, const Matrix& matrix,
                                           const float* bias) const {
  const int cols = matrix.cols;
  const bool quantized = TakesInt8(spec_.numerics) && matrix.type != DType::kF32;
  std::vector<uint16_t> rounded;
  for (const float value : x) rounded.push_back(RneBf16(value));
  std::vector<float> out;
  for (size_t at = 0; at < x.size(); at += cols) {
    const reference::QuantizedRow row = reference::Quantize(&x[at], cols);
    for (int n = 0; n < matrix.rows; ++n) {
      const uint16_t* const w = &matrix.bf16[size_t{1} * n * cols];
      const float dot = quantized ? reference::DotA8g32(row, matrix.View(), n)
                                  : reference::DotBf16(spec_.numerics, &rounded[at], 1, w, 1, cols);
      out.push_back(bias == nullptr ? dot : dot + bias[n]);
    }
  }
  return out;
}

std::vector<float> ScalarDecoder::RandomVector(int size, float mean, float deviation) {
  std::mt19937 random(next_seed_++);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> vector(size);
  for (float& x : vector) x = normal(random);
  return vector;
}

void ScalarDecoder::RunLayer(int layer_idx, int num_tokens, std::vector<float>& residual) const {
  const Layer& layer = layers_[layer_idx];
  const ModelShape& s = spec_.shape;
  const int hd = s.head_dim;
  const int group_size = s.num_heads / s.num_kv_heads;

  // q, k and v, each bf16 [num_tokens, heads of its own, head_dim].
  std::vector<float> x = NormRows(residual, layer.attention_norm, s.norm_eps);
  const float* bias = DataOrNull(layer.qkv_bias);
  const bool has_rope = std::count(spec_.layers_without_rope.begin(),
                                   spec_.layers_without_rope.end(), layer_idx) == 0;
  const std::vector<float> none;
  const auto project = [&](const Matrix& matrix, const std::vector<float>& norm, bool rotate) {
    std::vector<float> rows = Multiply(x, matrix, bias);
    std::vector<uint16_t> rounded(rows.size());
    for (size_t i = 0; i < rows.size(); i += hd) {
      const int position = static_cast<int>(i) / matrix.rows;
      if (!norm.empty()) reference::RmsNormHead(&rows[i], norm.data(), hd, s.norm_eps, &rows[i]);
      if (rotate) {
        reference::RotateHead(&rows[i], position, inv_freq_.data(), kRopeScale, hd, &rounded[i]);
      } else {
        for (int d = 0; d < hd; ++d) rounded[i + d] = RneBf16(rows[i + d]);
      }
    }
    if (bias != nullptr) bias += matrix.rows;
    return rounded;
  };
  const std::vector<uint16_t> q = project(layer.q, layer.q_norm, has_rope);
  const std::vector<uint16_t> k = project(layer.k, layer.k_norm, has_rope);
  const std::vector<uint16_t> v = project(layer.v, none, false);

  std::vector<uint16_t> attended(num_tokens * s.num_heads * hd);
  for (int token = 0; token < num_tokens; ++token) {
    for (int head = 0; head < s.num_heads; ++head) {
      const int kv_head = head / group_size;
      const int64_t at = (int64_t{token} * s.num_heads + head) * hd;
      reference::Attend({.q = &q[at],
                         .k = &k[kv_head * hd],
                         .v = &v[kv_head * hd],
                         .token_stride = s.num_kv_heads * hd,
                         .head_dim = hd,
                         .scale = 1.0f / std::sqrt(static_cast<float>(hd)),
                         .position = token,
                         .window = spec_.windows[layer_idx],
                         .mode = spec_.numerics},
                        &attended[at]);
    }
  }
  const auto add = [&](const std::vector<float>& rows, const Matrix& matrix,
                       const std::vector<float>& out_bias) {
    const std::vector<float> products = Multiply(rows, matrix, DataOrNull(out_bias));
    for (size_t i = 0; i < residual.size(); ++i) residual[i] += products[i];
  };
  std::vector<float> wide_attended;
  for (const uint16_t value : attended) wide_attended.push_back(FromBf16(value));
  add(wide_attended, layer.out, layer.out_bias);

  x = NormRows(residual, layer.mlp_norm, s.norm_eps);
  const std::vector<float> gate = Multiply(x, layer.gate, DataOrNull(layer.gate_bias));
  const std::vector<float> up = Multiply(x, layer.up, DataOrNull(layer.up_bias));
  std::vector<float> mlp(gate.size());
  for (size_t i = 0; i < mlp.size(); ++i) mlp[i] = reference::Silu(gate[i]) * up[i];
  add(mlp, layer.down, layer.down_bias);
}

std::vector<float> ScalarDecoder::Logits(absl::Span<const int32_t> tokens) const {
  const ModelShape& s = spec_.shape;
  const int num_tokens = static_cast<int>(tokens.size());
  std::vector<float> residual;
  for (int32_t token : tokens) {
    for (int i = 0; i < s.hidden_size; ++i) {
      const int64_t at = int64_t{token} * s.hidden_size + i;
      const bool rounded =
          spec_.numerics == NumericsMode::kBf16x2 || embedding_.type == DType::kF32;
      residual.push_back(rounded ? FromBf16(embedding_.bf16[at]) : embedding_.wide[at]);
    }
  }
  for (int layer = 0; layer < s.num_layers; ++layer) RunLayer(layer, num_tokens, residual);
  const std::vector<float> x = NormRows(residual, final_norm_, s.norm_eps);
  return Multiply(x, embedding_, nullptr);
}

Backend::Forward ScalarDecoder::LoadInto(Backend& backend, int max_positions) const {
  struct Ids {
    Backend::QkvArgs qkv;
    MatrixId out;
    VectorId out_bias;
    Backend::MlpArgs mlp;
  };
  const auto vector = [&](const std::vector<float>& values) {
    return values.empty() ? VectorId{} : backend.PackVector({{VectorView(values)}}).value();
  };
  const RopeId rope = backend.MakeRope(inv_freq_, kRopeScale, max_positions).value();
  const MatrixId embedding = backend.PackMatrix({{embedding_.View()}}).value();
  const VectorId final_norm = vector(final_norm_);
  std::vector<Ids> ids;
  for (const Layer& layer : layers_) {
    Ids id;
    id.qkv = {
        .layer = static_cast<int>(ids.size()),
        .norm = vector(layer.attention_norm),
        .qkv = backend.PackMatrix({{layer.q.View()}, {layer.k.View()}, {layer.v.View()}}).value(),
        .bias = vector(layer.qkv_bias),
        .q_norm = vector(layer.q_norm),
        .k_norm = vector(layer.k_norm),
        .rope = rope};
    if (std::count(spec_.layers_without_rope.begin(), spec_.layers_without_rope.end(),
                   id.qkv.layer) > 0) {
      id.qkv.rope = RopeId{};
    }
    id.out = backend.PackMatrix({{layer.out.View()}}).value();
    id.out_bias = vector(layer.out_bias);
    id.mlp = {.norm = vector(layer.mlp_norm),
              .gate_up = backend.PackGateUp({layer.gate.View()}, {layer.up.View()}).value(),
              .gate_bias = vector(layer.gate_bias),
              .up_bias = vector(layer.up_bias),
              .down = backend.PackMatrix({{layer.down.View()}}).value(),
              .down_bias = vector(layer.down_bias)};
    ids.push_back(id);
  }
  return [&backend, embedding, final_norm, ids](const StepShape& step) {
    backend.CopyBlocks();
    backend.Embed(embedding);
    for (const Ids& id : ids) {
      backend.NormQkvRopeAppend(id.qkv);
      backend.Attend(id.qkv.layer);
      backend.OutProjAdd(id.out, id.out_bias);
      backend.NormMlpAdd(id.mlp);
    }
    backend.LogitsOfRows(final_norm, embedding);
    backend.Sample();
    if (step.num_logprobs > 0) backend.Logprobs();
  };
}

}  // namespace quire
