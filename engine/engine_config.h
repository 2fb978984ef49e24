#ifndef QUIRE_ENGINE_ENGINE_CONFIG_H_
#define QUIRE_ENGINE_ENGINE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/gguf_override.h"
#include "kernels/numerics_mode.h"
#include "scheduler/scheduler.h"

namespace quire {

// What weights are rounded to as they are loaded, where their file does not have them quantised: by
// groups of 32, as GGUF's Q8_0 and Q4_0.
enum class WeightQuantization : uint8_t { kNone, kInt8, kInt4 };

// What an operator may set about the engine. 0 means "choose": the engine says at start what it
// chose and why.
struct EngineConfig {
  std::string model_path;  // directory, or .gguf
  std::vector<GgufOverride> gguf_overrides;
  std::optional<NumericsMode> numerics;  // none: by the weights' format
  WeightQuantization quantize = WeightQuantization::kNone;
  int32_t num_threads = 0;
  int32_t block_size = 32;
  int64_t kv_cache_bytes = 0;  // 0: min(4 GiB, 25 % of what the cgroup leaves)
  int32_t max_model_len = 0;   // 0: as the model says, as far as the KV pool can hold it
  int32_t max_num_seqs = 64;
  int32_t max_num_batched_tokens = 512;
  int32_t max_choices = 8;  // of a request
  int32_t max_queued_requests = 512;
  int64_t max_queued_prefill_tokens = 0;  // 0: what four KV pools hold
  int32_t target_itl_ms = 100;
  AdmissionMode admission = AdmissionMode::kOptimistic;
  bool prefix_caching = true;
  uint64_t block_shuffle_seed = 0;  // tests only
};

}  // namespace quire

#endif  // QUIRE_ENGINE_ENGINE_CONFIG_H_
