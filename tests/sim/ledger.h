#ifndef QUIRE_TESTS_SIM_LEDGER_H_
#define QUIRE_TESTS_SIM_LEDGER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/sim/coverage.h"
#include "tests/sim/shadow_kv.h"
#include "tests/sim/shadow_model.h"

namespace quire {

// The first thing that went wrong in a simulation.
class Verdict {
 public:
  void Fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
  }
  bool ok() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }

 private:
  std::string failure_;
};

// One choice of a request as its client sees it, from the queue to its end.
struct LiveSequence {
  std::shared_ptr<Request> request;
  SequenceId first_id = 0;  // of the request's choices
  uint32_t choice = 0;
  ShadowTruth truth;
  // What it comes to if nothing befalls it.
  int32_t natural_tokens = 0;
  EndReason natural_end = EndReason::kLength;

  SimState state = SimState::kQueued;  // when last observed
  bool is_added = false;               // out of the inbox
  TimeUs added_at = 0;
  TimeUs first_scheduled_at = kNever;
  int32_t cached_tokens = 0;
  int32_t seq_slot = -1;  // -1: waits
  int32_t num_told = 0;   // tokens
  int32_t num_prompt_rows = 0;
  int64_t num_rows = 0;
  int64_t num_kv_rows = 0;
  int32_t num_preemptions = 0;
  int32_t times_passed = 0;
  uint32_t may_end = 0;   // reasons (bits) that faults gave
  bool must_end = false;  // somebody asked, and the next Plan or Commit has to obey
  EndReason asked_reason = EndReason::kCancelled;  // by the first who did

  // Order of the queue, as clients know it: true if this one comes first.
  bool ComesBefore(const LiveSequence& other) const {
    if (request->priority != other.request->priority) {
      return request->priority > other.request->priority;
    }
    return first_id != other.first_id ? first_id < other.first_id : choice < other.choice;
  }
  int32_t num_prompt() const { return static_cast<int32_t>(request->prompt_token_ids.size()); }
};

// Ledger knows of every request what its client must hear, from the request alone, and checks that
// it hears just that: the right tokens in order, one end for a reason that there is, numbers that
// are true. It knows the scheduler's public contract, not how it decides.
//
// Owned by World, one thread. Everything that is wrong goes into the Verdict.
class Ledger {
 public:
  Ledger(const SchedulerConfig& config, int32_t vocab_size, Verdict* verdict, Coverage* coverage)
      : config_(config), vocab_size_(vocab_size), verdict_(*verdict), coverage_(*coverage) {}

  // A request is in the inbox: its choices are live from now on.
  void Submitted(SequenceId id, const std::shared_ptr<Request>& request);
  // What Add made of it; `before`: what the scheduler said just before.
  void Added(SequenceId id, const absl::StatusOr<AddResult>& added, const Scheduler& scheduler,
             const SchedulerStats& before, TimeUs now);
  // Somebody ends a sequence, and those that would have come out of it.
  void EndAsked(SequenceId id, EndReason reason);
  // A fault will befall the sequence when its step ends.
  void MayEnd(SequenceId id, EndReason reason);

  void Planned(const StepPlan& plan, TimeUs now);
  // `broken`: whose rows were made garbage.
  void Executed(const std::vector<ExecutedSequence>& executed, const std::set<SequenceId>& broken);
  void Committed(const CommitResult& committed, TimeUs now);
  // After every Plan and Commit: what should be over is over; states, counts and statistics agree.
  void Observe(const Scheduler& scheduler, TimeUs now);

  std::map<SequenceId, LiveSequence>& live() { return live_; }
  const std::map<SequenceId, LiveSequence>& live() const { return live_; }
  // Texts that ended lately: prompt and completion, for the next turn of a conversation.
  std::vector<int32_t> TakeTranscript();

 private:
  void CheckRefusal(const LiveSequence& sequence, const absl::Status& status,
                    const SchedulerStats& before);
  std::string WhyImpossible(const LiveSequence& sequence, bool at_most) const;
  bool IsQueueFull(const LiveSequence& sequence, const SchedulerStats& before) const;
  void PlannedOne(const PlannedSequence& planned, TimeUs now);
  void CheckPlanned(const PlannedSequence& planned, const LiveSequence& sequence);
  void Told(const NewToken& token);
  void Ended(const EndedSequence& end, TimeUs now);
  void CheckEndReason(const EndedSequence& end, const LiveSequence& sequence, TimeUs now);
  void CheckUsage(const EndedSequence& end, const LiveSequence& sequence);
  void ObserveOne(SequenceId id, LiveSequence* sequence, const Sequence* seen, TimeUs now);
  void CheckStats(const Scheduler& scheduler);

  const SchedulerConfig config_;
  const int32_t vocab_size_;
  Verdict& verdict_;
  Coverage& coverage_;
  std::map<SequenceId, LiveSequence> live_;
  std::vector<std::vector<int32_t>> transcripts_;
  SchedulerStats expected_;  // the counting half
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_LEDGER_H_
