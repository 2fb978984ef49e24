#ifndef QUIRE_ENGINE_ENGINE_H_
#define QUIRE_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "engine/engine_config.h"
#include "engine/step_times.h"
#include "engine/token_listener.h"
#include "scheduler/request.h"
#include "scheduler/scheduler.h"

namespace quire {

// Facts about the loaded model that clients and logs may see. Constant after Load.
struct ModelInfo {
  std::string path;
  std::string architecture;   // "LlamaForCausalLM"
  std::string weight_format;  // as in the file: "Q4_1", "BF16", ...
  std::string numerics_mode;  // "bf16x2"
  std::string backend;        // "cpu avx512bf16, 2 threads"
  std::string fingerprint;    // weights, mode, KV format, version: equal means equal tokens
  int32_t vocab_size = 0;
  std::vector<int32_t> eos_token_ids;
  int32_t bos_token_id = -1;
  int32_t max_model_len = 0;
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  int32_t block_size = 0;
  int32_t num_blocks = 0;
  int64_t kv_cache_bytes = 0;
  int64_t weight_bytes = 0;
  // Elements of the matrices that every row meets, and of the head, which rows with logits meet.
  int64_t num_layer_weights = 0;
  int64_t num_head_weights = 0;
  // Defaults from generation_config.json; NaN or -1 where it says nothing.
  float default_temperature = 0;
  float default_top_p = 0;
  float default_min_p = 0;
  float default_repetition_penalty = 0;
  int32_t default_top_k = -1;
};

// Told while loading: what is done now, and how long the phase before took.
using LoadProgress = std::function<void(absl::string_view phase, double seconds)>;

// Engine turns requests into tokens. It owns the backend, the model, the KV pool and the scheduler,
// and one thread that repeats Step: drain the inbox, Plan, Run, Commit, tell the listeners.
// It knows nothing of text or transport.
//
// Threads: Submit and End may be called from any thread and never wait for a step; everything else
// of a sequence happens on the engine thread. A failed sequence ends its own stream, never the
// loop.
class Engine {
 public:
  // Loads the model and starts the engine thread. FAILED_PRECONDITION: an option is wrong or
  // contradicts the model; RESOURCE_EXHAUSTED: memory or device; everything else: the model's
  // files.
  static absl::StatusOr<std::unique_ptr<Engine>> Load(const EngineConfig& config,
                                                      const LoadProgress& progress);
  // Refuses what Load would refuse before it takes memory: options, files, device, and weights or a
  // KV pool that do not fit. Tells what Load would, weights before padding. Cost: InspectModel's.
  static absl::StatusOr<ModelInfo> Check(const EngineConfig& config);
  // Ends what is left with kDraining and joins the thread.
  virtual ~Engine() = default;

  virtual const ModelInfo& info() const = 0;

  // Puts a request into the inbox. Its sequences, one for each choice, have the ids [id, id +
  // num_choices) of the id returned. The listener hears OnAccepted or OnRefused from the engine
  // thread. Fails with RESOURCE_EXHAUSTED ("QUEUE_FULL: ...") when the inbox itself is full.
  // REQUIRES: prompt not empty, ids in [0, vocab_size), sampling values in range.
  virtual absl::StatusOr<SequenceId> Submit(std::shared_ptr<const Request> request,
                                            std::shared_ptr<TokenListener> listener) = 0;
  // Ends one choice within a step, whatever state it is in. Before the prompt is computed, ending
  // the first choice ends them all, and ending another one has no effect. Unknown or ended: no
  // effect.
  virtual void End(SequenceId id, EndReason reason) = 0;
  // Ends all sequences that have not been scheduled yet with kDraining.
  virtual void EndQueued() = 0;

  // What many listeners heard is handed on together: the engine thread calls `hand_over` when it
  // has told them all of a step. As a listener, it must return at once. Call before Submit.
  virtual void SetHandOver(std::function<void()> hand_over) = 0;

  // The engine's clock, for deadlines in requests.
  virtual TimeUs Now() const = 0;
  virtual SchedulerStats Stats() const = 0;
  virtual StepTimes Times() const = 0;
  // The scheduler's state when blocks were first found to leak, which is a bug; "" as long as none
  // were.
  virtual std::string LeakReport() const = 0;
  // When the engine thread last finished a turn of its loop (it turns at least once a second).
  virtual TimeUs Heartbeat() const = 0;
};

}  // namespace quire

#endif  // QUIRE_ENGINE_ENGINE_H_
