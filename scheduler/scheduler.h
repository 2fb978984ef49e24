#ifndef QUIRE_SCHEDULER_SCHEDULER_H_
#define QUIRE_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "paged_kv/block_pool.h"
#include "paged_kv/prefix_cache.h"
#include "scheduler/budget.h"
#include "scheduler/request.h"
#include "scheduler/sequence.h"
#include "scheduler/step_plan.h"
#include "scheduler/watermark.h"

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
  int32_t max_choices = 8;               // of a request; bounds the draws of a step
  int32_t max_model_len = 0;             // 0: what the pool can hold
  int32_t max_queued_requests = 512;
  int64_t max_queued_prefill_tokens = 0;
  int32_t max_preemptions = 3;  // then all blocks that it can need are set aside for it
  int32_t max_overtakes = 16;   // requests that may pass one which waits for blocks
  int32_t max_steps_in_flight = 1;
  AdmissionMode admission = AdmissionMode::kOptimistic;
  bool prefix_caching = true;
  TimeUs target_itl_us = 100'000;
  // Measured at load (engine/calibration.h): a step takes about
  //   us_per_step + rows * us_per_row + (sum over rows of keys attended to) * us_per_attended.
  // All 0: unknown; chunks are limited by the token budget only.
  double us_per_step = 0;
  double us_per_row = 0;
  double us_per_attended = 0;
  // Shuffles the order in which free blocks are handed out; tests only. 0: newest freed first.
  uint64_t block_shuffle_seed = 0;
  // Fewer bits make hashes of prefixes collide; tests only.
  int32_t prefix_hash_bits = 64;
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
  int64_t num_steps = 0;         // planned, with rows
  int64_t num_kv_rows = 0;       // rows whose K and V were written, per layer
  int32_t max_seqs_in_step = 0;  // the most sequences that one step held
  int64_t num_checks = 0;        // plans and commits after which all counts agreed
  int32_t blocks_leaked = 0;     // see NumLeakedBlocks
};

// What Add found; for the client's Accepted message.
struct AddResult {
  int32_t queue_position = 0;  // requests ahead of it
  int32_t cached_tokens = 0;   // prompt tokens that the prefix cache holds right now
};

// Scheduler decides what each step computes: which sequences, how many of their tokens, in which
// blocks; who waits, who is preempted, who is over. It does not run steps, tell clients or read a
// clock: engine/ does. See scheduler/README.md for the rules and why they never hang.
//
// A sequence is WAITING or RUNNING from Add until it is listed in an `ended`, exactly once. Up to
// max_steps_in_flight steps may be planned and not yet committed; they commit in order.
//
// A pure state machine, one thread. A step in which nobody is admitted and nobody ends does not
// allocate: what it needs was taken at admission, or by the steps before it.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerConfig& config);
  ~Scheduler();

  // Puts a request into the queue; its choices have the ids [id, id + num_choices). All but the
  // first come into being when the prompt is computed. RESOURCE_EXHAUSTED "QUEUE_FULL: ..." when
  // the queue is full; INVALID_ARGUMENT "CONTEXT_LENGTH_EXCEEDED: ..." or
  // "REQUEST_EXCEEDS_KV_CAPACITY: ..." when it can never fit. REQUIRES: new ids above 0, a prompt
  // that is not empty.
  absl::StatusOr<AddResult> Add(SequenceId id, std::shared_ptr<const Request> request, TimeUs now);
  // Ends the sequence in the next Plan or Commit, and with it those that would have come out of it;
  // unknown ids are ignored.
  void End(SequenceId id, EndReason reason);
  // Blocks [0, n) have been touched and may be handed out. Never called: all of them.
  void SetTouchedBlocks(int32_t n);
  // The plan lives until the first Plan after its Commit, or until the next Plan where it has no
  // rows; what it points to, until the next call that is not const.
  // REQUIRES: fewer than max_steps_in_flight steps are planned and not committed.
  const StepPlan& Plan(TimeUs now);
  // The result lives until the next Commit.
  // REQUIRES: `step_id` is the oldest step not committed, with one result per planned sequence.
  const CommitResult& Commit(uint64_t step_id, absl::Span<const SequenceResult> results,
                             TimeUs now);
  // The whole step is lost: its sequences end with kEngineFailed.
  const CommitResult& CommitFailed(uint64_t step_id, TimeUs now);
  // Something is queued, running or in flight.
  bool HasWork() const;
  SchedulerStats Stats() const;

  // For tests and dumps; valid until the next call that is not const. Null: ended or unknown.
  const Sequence* Look(SequenceId id) const { return Find(id); }
  const BlockPool& pool() const { return pool_; }

  // CHECK-fails unless all counts agree. O(1): every Plan and Commit ends with it.
  void CheckCounts() const;
  // Blocks that are held though nothing runs, or fenced though no step is in flight: 0, or there is
  // a bug. O(1).
  int32_t NumLeakedBlocks() const;
  // CHECK-fails unless all bookkeeping agrees. O(blocks + tokens). For tests.
  void CheckInvariants() const;
  // The whole state in a line.
  std::string Dump() const;

 private:
  // Higher priority first, then the order of Add.
  struct QueueOrder {
    bool operator()(const Sequence* a, const Sequence* b) const;
  };
  // A plan being made.
  struct Draft {
    TimeUs now;
    StepBudget budget;
    StepPlan& plan;
    int32_t promised_blocks = 0;  // kept for sequences that wait for blocks on their way
    // ReservedClaims() while running sequences are planned, which changes with every block taken.
    int32_t reserved_claims = 0;
    // AllClaims() while waiting ones are looked at, until one is admitted.
    std::optional<int32_t> all_claims = {};
    bool has_preempted = false;
  };
  // Blocks that a sequence shares when it is admitted: [num_groups, num_blocks], full ones from the
  // first on; kNoBlock where a window group does not see them.
  using Head = std::vector<std::vector<BlockId>>;
  enum class Room : uint8_t { kNow, kLater, kPreempted };
  enum class Admission : uint8_t { kAdmitted, kWaitsForPrefix, kNoBlocks, kNoBudget };

  // scheduler.cc: life and death of sequences, the phases of a plan.
  Sequence* Find(SequenceId id) const;  // null: ended
  Sequence* NewSequence(SequenceId id, std::shared_ptr<const Request> request);
  void EndRequested(std::vector<EndedSequence>* ended);
  void EndOverdue(TimeUs now, std::vector<EndedSequence>* ended);
  void EndSequence(Sequence* sequence, EndReason reason, std::vector<EndedSequence>* ended,
                   int32_t stop_token_id = -1);
  void EnterQueue(Sequence* sequence);
  void LeaveQueue(Sequence* sequence);
  void DropResources(Sequence* sequence);
  StepBudget SetAsideRows() const;
  int32_t FirstBlockSeen(int32_t group, int32_t position) const;
  void DropOutOfWindow();
  void PlanRunning(Draft* draft);
  Room PlanOneRunning(Sequence* sequence, Draft* draft);
  int32_t CapChunk(const Sequence& sequence, int32_t position, int32_t wanted) const;
  void PlanChunk(Sequence* sequence, int32_t num_tokens, Draft* draft);
  void FinishPlan(const StepPlan& plan);

  // admission.cc
  absl::Status CheckCanEverFit(const Request& request) const;
  absl::Status CheckQueueHasRoom(int64_t num_tokens) const;
  void AdmitWaiting(Draft* draft);
  Admission TryAdmit(Sequence* sequence, Draft* draft);
  Head HeadOf(const PrefixMatch& match) const;
  int32_t NeedBeside(const Sequence& sequence, const Head& head) const;
  bool HasBlocksToAdmit(const Sequence& sequence, const Head& head, int32_t num_copied, int32_t end,
                        Draft* draft) const;
  void EnterRunning(Sequence* sequence);
  void Admit(Sequence* sequence, const PrefixMatch& match, int32_t first_position, Draft* draft);
  void CopyLastBlock(Sequence* sequence, const std::vector<BlockId>& sources, int32_t end,
                     Draft* draft);

  // fork.cc
  Sequence* AddChoice(const Sequence& first, uint32_t choice);
  const Sequence* ForkSource(const Sequence& sequence) const;
  Head HeadOf(const Sequence& source, int32_t position) const;
  Admission TryFork(Sequence* sequence, const Sequence& source, Draft* draft);

  // preemption.cc: memory among running sequences.
  int32_t Demand(const Sequence& sequence, int32_t group) const;
  int32_t ClaimOf(const Sequence& sequence) const;
  int32_t AllClaims() const;
  int32_t ReservedClaimOf(const Sequence& sequence) const;
  int32_t ReservedClaims() const;
  int32_t UsableBlocks(const Sequence& sequence, const Draft& draft) const;
  int32_t NewBlocks(const Sequence& sequence, int32_t end) const;
  void TakeBlocks(Sequence* sequence, int32_t end);
  int32_t FitToBlocks(const Sequence& sequence, int32_t num_tokens, const Draft& draft) const;
  Room MakeRoom(Sequence* sequence, int32_t num_blocks, Draft* draft);
  Sequence* ChooseVictim(const Sequence& beneficiary) const;
  void Preempt(Sequence* sequence, Draft* draft);

  // prefix_wait.cc: who computes a prefix, who waits for it, who publishes.
  PrefixMatch FindPrefix(const Sequence& sequence) const;
  bool IsWaitingForPrefix(const Sequence& sequence) const;
  void WaitFor(Sequence* waiter, NodeRef pending);
  NodeRef NextPromised(const Sequence& waiter) const;
  void PromiseBlocks(Sequence* sequence);
  void PublishBlocks(Sequence* sequence);
  void LeavePrefix(Sequence* sequence);
  void OrderRunning();

  // invariants.cc
  void EndCall();
  int32_t num_in_flight() const { return static_cast<int32_t>(next_step_id_ - oldest_step_); }

  // commit.cc
  const StepPlan& TakeOldestStep(uint64_t step_id);
  void CommitPart(const PlannedSequence& part, const SequenceResult& result, CommitResult* out);
  void CommitToken(Sequence* sequence, int32_t token_id, CommitResult* out);

  // Constant after construction.
  const SchedulerConfig config_;
  const int32_t num_groups_;

  BlockPool pool_;
  PrefixCache cache_;
  absl::flat_hash_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  std::set<Sequence*, QueueOrder> waiting_;
  // By effective priority, then arrival: plans go from the front, victims come from the back.
  std::vector<Sequence*> running_;
  std::vector<int32_t> free_seq_slots_;  // the back is given out next
  std::vector<StepPlan> plans_;          // [max_steps_in_flight]: that of a step is at id % size
  CommitResult committed_;               // of the last step
  std::vector<std::pair<SequenceId, EndReason>> end_requests_;
  Watermark watermark_;
  StepId oldest_step_ = 1;  // [oldest_step_, next_step_id_) are planned and not committed
  StepId next_step_id_ = 1;
  uint64_t next_arrival_ = 0;
  int64_t queued_tokens_ = 0;
  TimeUs next_due_ = kNever;  // nothing is overdue before; never later than any due_at()
  bool is_touch_told_ = false;
  SchedulerStats counters_;       // the counting half of Stats()
  std::vector<Sequence*> drawn_;  // scratch of CommitPart
  std::vector<BlockId> taken_;    // scratch of TakeBlocks
};

}  // namespace quire

#endif  // QUIRE_SCHEDULER_SCHEDULER_H_
