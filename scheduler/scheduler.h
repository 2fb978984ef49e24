#ifndef QUIRE_SCHEDULER_SCHEDULER_H_
#define QUIRE_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "scheduler/request.h"
#include "scheduler/step_plan.h"

namespace quire {

// How memory is promised. kOptimistic takes blocks as they are needed and preempts when there are
// none; kReserve takes all that a request can ever need when it is admitted, and never preempts.
enum class AdmissionMode : uint8_t { kOptimistic, kReserve };

// All limits of the scheduler.
struct SchedulerConfig {
  int32_t block_size = 32;
  int32_t num_blocks = 0;
  std::vector<int32_t> group_windows = {0};  // one entry per KvGroup; 0: full attention
  int32_t max_num_seqs = 64;
  int32_t max_num_batched_tokens = 512;  // > max_num_seqs
  int32_t max_logit_rows = 64;           // >= max_num_seqs; bounds prompt-logits chunks too
  int32_t max_model_len = 0;
  int32_t max_queued_requests = 512;
  int64_t max_queued_prefill_tokens = 0;
  int32_t max_preemptions = 3;
  int32_t max_steps_in_flight = 1;
  AdmissionMode admission = AdmissionMode::kOptimistic;
  bool prefix_caching = true;
  TimeUs target_itl_us = 100'000;
  // Measured at load: what a prompt token costs, and a step of decode rows besides. 0: unknown,
  // chunks are limited by the budget only.
  double us_per_prefill_token = 0;
  double us_per_decode_step = 0;
  // Shuffles the order in which free blocks are handed out; tests only. 0: newest freed first.
  uint64_t block_shuffle_seed = 0;
};

struct SchedulerStats {
  int32_t num_running = 0;
  int32_t num_waiting = 0;
  int64_t queued_prefill_tokens = 0;
  int32_t blocks_total = 0;
  int32_t blocks_held = 0;    // by running sequences
  int32_t blocks_cached = 0;  // held by nobody, content known to the prefix cache
  int64_t num_preemptions = 0;
  int64_t prefix_query_tokens = 0;
  int64_t prefix_hit_tokens = 0;
  int64_t num_steps = 0;
};

// What Add found; for the client's Accepted message.
struct AddResult {
  int32_t queue_position = 0;  // requests ahead of it
  int32_t cached_tokens = 0;   // prompt tokens that the prefix cache holds right now
};

// A pure state machine: no clock, no thread, no device. See scheduler/README.md.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerConfig& config);
  ~Scheduler();
  // RESOURCE_EXHAUSTED when the queue is full; INVALID_ARGUMENT when it can never fit.
  absl::StatusOr<AddResult> Add(SequenceId id, std::shared_ptr<const Request> request, TimeUs now);
  // Ends the sequence in the next Plan or Commit; unknown ids are ignored.
  void End(SequenceId id, EndReason reason);
  // Blocks [0, n) have been touched and may be handed out.
  void SetTouchedBlocks(int32_t n);
  StepPlan Plan(TimeUs now);
  CommitResult Commit(uint64_t step_id, absl::Span<const SequenceResult> results, TimeUs now);
  // The whole step is lost: its sequences end with kEngineFailed.
  CommitResult CommitFailed(uint64_t step_id, TimeUs now);
  bool HasWork() const;
  SchedulerStats Stats() const;
  void CheckInvariants() const;
};

}  // namespace quire

#endif  // QUIRE_SCHEDULER_SCHEDULER_H_
