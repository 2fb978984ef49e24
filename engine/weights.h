#ifndef QUIRE_ENGINE_WEIGHTS_H_
#define QUIRE_ENGINE_WEIGHTS_H_

#include <vector>

#include "absl/status/statusor.h"

#include "engine/model_files.h"

namespace quire {

// The tensors of one decoder layer. Biases, q_norm and k_norm are nullptr where the configuration
// has none.
struct LayerWeights {
  const FileTensor* attention_norm = nullptr;  // [hidden_size]
  const FileTensor* q = nullptr;               // [num_heads * head_dim, hidden_size]
  const FileTensor* k = nullptr;               // [num_kv_heads * head_dim, hidden_size]
  const FileTensor* v = nullptr;               // [num_kv_heads * head_dim, hidden_size]
  const FileTensor* q_bias = nullptr;          // [num_heads * head_dim]
  const FileTensor* k_bias = nullptr;          // [num_kv_heads * head_dim]
  const FileTensor* v_bias = nullptr;          // [num_kv_heads * head_dim]
  const FileTensor* q_norm = nullptr;          // [head_dim]
  const FileTensor* k_norm = nullptr;          // [head_dim]
  const FileTensor* out = nullptr;             // [hidden_size, num_heads * head_dim]
  const FileTensor* out_bias = nullptr;        // [hidden_size]
  const FileTensor* mlp_norm = nullptr;        // [hidden_size]
  const FileTensor* gate = nullptr;            // [intermediate_size, hidden_size]
  const FileTensor* up = nullptr;              // [intermediate_size, hidden_size]
  const FileTensor* down = nullptr;            // [hidden_size, intermediate_size]
  const FileTensor* gate_bias = nullptr;       // [intermediate_size]
  const FileTensor* up_bias = nullptr;         // [intermediate_size]
  const FileTensor* down_bias = nullptr;       // [hidden_size]
};

// All tensors that a model computes with, by role.
struct ModelWeights {
  const FileTensor* embedding = nullptr;   // [vocab_size, hidden_size]
  const FileTensor* final_norm = nullptr;  // [hidden_size]
  const FileTensor* head = nullptr;        // [vocab_size, hidden_size]; embedding, if tied
  // [head_dim / 2], or nullptr: inverse frequencies are divided by these. GGUF only.
  const FileTensor* rope_factors = nullptr;
  RowOrder qk_order = RowOrder::kAsIs;  // of q, k and their biases
  std::vector<LayerWeights> layers;     // [num_layers]
};

// Finds and checks every tensor. One that is missing, of another shape, or left over (but for a few
// known to be harmless) is an error that names the tensor, what was expected and what was found.
absl::StatusOr<ModelWeights> FindWeights(const ModelFiles& files);

}  // namespace quire

#endif  // QUIRE_ENGINE_WEIGHTS_H_
