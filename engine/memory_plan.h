#ifndef QUIRE_ENGINE_MEMORY_PLAN_H_
#define QUIRE_ENGINE_MEMORY_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "engine/engine_config.h"
#include "engine/model_config.h"

namespace quire {

// What is to be held at once.
struct MemoryDemand {
  int64_t num_tokens = 0;  // of one sequence, prompt and answer together; above 0
  int64_t num_seqs = 1;    // above 0
  int32_t block_size = 32;
  int32_t kv_elem_bytes = 2;
  // Of a sequence in one step: what layers with a window hold beside it.
  int64_t max_chunk = EngineConfig().max_num_batched_tokens;
};

// The memory that a model takes, exact, from its configuration alone.
struct MemoryPlan {
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;  // as held, when nothing is quantised: two bytes a parameter

  int64_t kv_bytes_per_token = 0;      // K and V, all layers
  int64_t kv_bytes_per_token_mha = 0;  // if every attention head had its own K and V
  int64_t kv_bytes = 0;                // all tokens of all sequences, before rounding to blocks

  int64_t block_bytes = 0;
  int64_t blocks_per_seq = 0;
  int64_t num_blocks = 0;     // of all sequences
  int64_t kv_pool_bytes = 0;  // num_blocks blocks: what the allocator takes
};

// INVALID_ARGUMENT when a size is not positive or the sum does not fit in 62 bits.
absl::StatusOr<MemoryPlan> PlanMemory(const ModelConfig& config, const MemoryDemand& demand);

}  // namespace quire

#endif  // QUIRE_ENGINE_MEMORY_PLAN_H_
