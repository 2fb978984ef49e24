#ifndef QUIRE_KERNELS_CPU_STEP_MEMORY_H_
#define QUIRE_KERNELS_CPU_STEP_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/kv_block.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/quantized_rows.h"

namespace quire {

// The activations of a step: everything between two ops. Sized once by the limits of a step, made
// resident at once, the same whatever the length of contexts.
struct StepMemory {
  // Fails when there is no memory for it.
  static absl::StatusOr<StepMemory> Make(const ModelShape& shape, const StepLimits& limits,
                                         int num_threads);

  // Strides of the bf16 operands, in elements.
  int64_t hidden_stride = 0;
  int64_t attended_stride = 0;
  int64_t mlp_stride = 0;
  int64_t wide_stride = 0;  // of fp32 rows

  float* residual = nullptr;     // [num_tokens, hidden_size]
  uint16_t* normed = nullptr;    // bf16 [max(num_tokens, num_logit_rows), hidden_stride]
  float* qkv = nullptr;          // [num_tokens, (num_heads + 2 num_kv_heads) * head_dim]
  uint16_t* q = nullptr;         // bf16 [num_tokens, num_heads, padded_head_dim]
  uint16_t* kv_rows = nullptr;   // bf16 [num_threads, K|V, padded_head_dim]
  uint16_t* attended = nullptr;  // bf16 [num_tokens, attended_stride]
  uint16_t* mlp = nullptr;       // bf16 [num_tokens, mlp_stride]
  // Operands of quantised weights, one at a time; the strides are set by ForDepth.
  QuantizedRows quantized;
  float* wide_rows = nullptr;  // [num_threads, wide_stride]: a row that is to be quantised
  float* wide_mlp = nullptr;   // [num_tokens, intermediate_size]: mlp, where it is quantised next
  float* logits = nullptr;     // [num_logit_rows, vocab_size]

  // `quantized` for rows of k elements. REQUIRES: k is one of the operands' sizes.
  QuantizedRows ForDepth(int k) const;

  MappedMemory memory;
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_STEP_MEMORY_H_
