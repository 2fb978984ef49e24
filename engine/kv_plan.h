#ifndef QUIRE_ENGINE_KV_PLAN_H_
#define QUIRE_ENGINE_KV_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "engine/engine_config.h"
#include "engine/model_config.h"
#include "paged_kv/kv_layout.h"

namespace quire {

// What a token's keys and values take where no sequence is longer than `longest` tokens: a window
// that none outgrows is none, for nothing would ever be freed for it.
KvModel KvModelOf(const ModelConfig& model, int64_t longest);

// How much KV memory there will be, decided before anything is loaded.
struct KvPlan {
  KvLayout layout;
  int32_t num_blocks = 0;
  // What one sequence can be long: as the model and the operator say, and as the pool can hold.
  // So every request that is accepted fits alone.
  int32_t max_model_len = 0;
};

// `available_bytes`: what the process can still take (memory_budget.h), of which the weights need
// `weight_bytes`. FAILED_PRECONDITION: an option contradicts the model or another option;
// RESOURCE_EXHAUSTED: the memory is not there. Both name the option and the numbers.
absl::StatusOr<KvPlan> PlanKv(const EngineConfig& config, const ModelConfig& model,
                              int64_t available_bytes, int64_t weight_bytes);

}  // namespace quire

#endif  // QUIRE_ENGINE_KV_PLAN_H_
