#ifndef QUIRE_TESTS_KERNELS_SCALAR_DECODER_H_
#define QUIRE_TESTS_KERNELS_SCALAR_DECODER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "kernels/backend.h"
#include "kernels/numerics_mode.h"

namespace quire {

// A small decoder with random weights, twice: as a plain loop over the scalar definitions, one
// sequence from its first token on, without cache or batch; and as a forward pass for a Backend.
class ScalarDecoder {
 public:
  struct Spec {
    ModelShape shape;
    std::vector<int> windows;  // [num_layers], 0: all
    bool biases = false;
    bool qk_norms = false;
    std::vector<int> layers_without_rope = {};
    uint32_t seed = 1;
    NumericsMode numerics = NumericsMode::kBf16x2;
    // Types that a file has its matrices in, in turn: F32, Q8_0 or Q4_0.
    std::vector<DType> types = {DType::kF32};
  };
  explicit ScalarDecoder(const Spec& spec);

  // Logits of every position: [tokens.size(), vocab_size].
  std::vector<float> Logits(absl::Span<const int32_t> tokens) const;

  // Packs the weights, and returns the forward pass over them.
  Backend::Forward LoadInto(Backend& backend, int max_positions) const;

 private:
  struct Matrix {
    DType type = DType::kF32;
    std::vector<uint8_t> file;   // [rows, cols], as a file has it
    std::vector<float> wide;     // the same, dequantised
    std::vector<uint16_t> bf16;  // and rounded
    int rows = 0;
    int cols = 0;
    WeightView View() const;
  };
  struct Layer {
    std::vector<float> attention_norm, mlp_norm;
    Matrix q, k, v, out, gate, up, down;
    std::vector<float> qkv_bias, out_bias, gate_bias, up_bias, down_bias;  // may be empty
    std::vector<float> q_norm, k_norm;                                     // may be empty
  };

  DType NextType() { return spec_.types[num_types_used_++ % spec_.types.size()]; }
  Matrix RandomMatrix(DType type, int rows, int cols, float scale);
  std::vector<float> RandomVector(int size, float mean, float deviation);
  // x * matrix^T, plus the bias where there is one: [x.size() / cols, rows]. x: as it is before
  // the product rounds or quantises it.
  std::vector<float> Multiply(const std::vector<float>& x, const Matrix& matrix,
                              const float* bias) const;
  void RunLayer(int layer, int num_tokens, std::vector<float>& residual) const;

  const Spec spec_;
  uint32_t next_seed_;
  size_t num_types_used_ = 0;
  std::vector<double> inv_freq_;
  Matrix embedding_;
  std::vector<Layer> layers_;
  std::vector<float> final_norm_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_SCALAR_DECODER_H_
