#ifndef QUIRE_ENGINE_ENGINE_LOOP_H_
#define QUIRE_ENGINE_ENGINE_LOOP_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/inbox.h"
#include "engine/token_edits.h"
#include "engine/transformer.h"
#include "kernels/backend.h"
#include "paged_kv/kv_storage.h"
#include "scheduler/scheduler.h"

namespace quire {

// Microseconds since an arbitrary start, never running back.
TimeUs MonotonicNow();

// What Engine::Load has made ready: everything that a loop needs, checked against each other.
struct EngineParts {
  ModelInfo info;
  SchedulerConfig scheduler_config;
  StepLimits limits;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> transformer;
  std::unique_ptr<KvStorage> kv_storage;
};

// EngineLoop is the Engine that runs: one thread, one Step after another.
//
// What each sequence is to its listener (Live) is kept here; what it is to the device and to memory
// is the scheduler's. Both forget it at the same moment: when its EndedSequence is told.
//
// A step in which nobody is admitted and nobody ends does not allocate, and wakes nobody but by
// `hand_over`, once.
class EngineLoop : public Engine {
 public:
  explicit EngineLoop(EngineParts parts);
  ~EngineLoop() override;

  const ModelInfo& info() const override { return info_; }
  absl::StatusOr<SequenceId> Submit(std::shared_ptr<const Request> request,
                                    std::shared_ptr<TokenListener> listener) override;
  void End(SequenceId id, EndReason reason) override;
  void EndQueued() override;
  void SetHandOver(std::function<void()> hand_over) override { hand_over_ = std::move(hand_over); }
  TimeUs Now() const override { return MonotonicNow(); }
  SchedulerStats Stats() const override ABSL_LOCKS_EXCLUDED(stats_mutex_);
  StepTimes Times() const override ABSL_LOCKS_EXCLUDED(stats_mutex_);
  std::string LeakReport() const override ABSL_LOCKS_EXCLUDED(stats_mutex_);
  TimeUs Heartbeat() const override { return heartbeat_.load(std::memory_order_relaxed); }

 private:
  struct Live {
    std::shared_ptr<TokenListener> listener;
    std::unique_ptr<TokenEdits> edits;  // null: the request has no rules
    bool planned = false;               // has been part of a step
    // A preempted sequence computes prompt rows again; they are told once.
    int next_prompt_row = 0;
    int num_prompt_tokens = 0;
  };

  void Loop();
  void Step();
  // Lets KV memory be touched only when that disturbs no step, or somebody may wait for it.
  void PaceTouching();
  // False: the engine is to stop.
  bool TakeInbox(absl::Duration timeout);
  void Accept(Submission submission);
  absl::StatusOr<StepResult> Run(const StepPlan& plan);
  // Valid until the next call.
  absl::Span<const SequenceResult> ResultsOf(const StepPlan& plan, const StepResult& result);
  void TellPromptRows(const StepPlan& plan, const StepResult& result);
  void TellPromptRow(const PlannedSequence& sequence, const Batch::Outputs& out, int row,
                     const StepResult& result, TokenListener& listener);
  absl::Span<const float> LogitsOf(const StepResult& result, int tap) const;  // [vocab_size]
  void TellTokens(const StepPlan& plan, const StepResult* result, const CommitResult& commit);
  void TellEnded(const std::vector<EndedSequence>& ended);
  void HandOver();
  void PublishStats() ABSL_LOCKS_EXCLUDED(stats_mutex_);

  // Constant after construction.
  const ModelInfo info_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<Transformer> transformer_;
  const int32_t spare_blocks_;  // touched and free: more are touched only while nothing computes

  std::function<void()> hand_over_;  // constant after the first Submit

  Inbox inbox_;
  // After the inbox: its thread wakes it as blocks become usable.
  const std::unique_ptr<KvStorage> kv_storage_;
  std::atomic<SequenceId> next_id_{1};
  std::atomic<TimeUs> heartbeat_;
  mutable absl::Mutex stats_mutex_;
  SchedulerStats stats_ ABSL_GUARDED_BY(stats_mutex_);
  StepTimes times_ ABSL_GUARDED_BY(stats_mutex_);
  std::string leak_report_ ABSL_GUARDED_BY(stats_mutex_);

  // Engine thread.
  Scheduler scheduler_;
  Batch batch_;
  std::vector<SequenceResult> results_;  // scratch of ResultsOf
  absl::flat_hash_map<SequenceId, Live> live_;
  InboxContent taken_;
  bool was_asked_ = false;  // something was submitted: hand_over_ will not change any more
  bool idle_ = true;        // the last step had nothing to run

  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace quire

#endif  // QUIRE_ENGINE_ENGINE_LOOP_H_
