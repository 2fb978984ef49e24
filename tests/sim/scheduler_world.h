#ifndef QUIRE_TESTS_SIM_SCHEDULER_WORLD_H_
#define QUIRE_TESTS_SIM_SCHEDULER_WORLD_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/sim/acts.h"
#include "tests/sim/shadow_kv.h"

namespace quire {

// What goes wrong with a step.
enum class Fault { kNone, kStepLost, kNotFinite, kNoToken };

// The world (acts.h) of Scheduler. It knows what each choice of each request must get in the end,
// from the request alone, and which reasons to end it has; how steps are made of them it leaves to
// the scheduler, and checks only the limits.
class SchedulerWorld {
 public:
  static constexpr int32_t kNumVariants = 3 * 5 * 2 * 4 * 2 * 2 * 2 * 2 * 2;
  static SchedulerConfig ConfigOf(int32_t variant);
  static const std::vector<ActKind<SchedulerWorld>>& Kinds();

  explicit SchedulerWorld(int32_t variant) : SchedulerWorld(ConfigOf(variant)) {}
  explicit SchedulerWorld(const SchedulerConfig& config);
  ~SchedulerWorld();

  // Of all worlds that there were, so that a test can tell whether it tested anything.
  struct Totals {
    int64_t num_ended[12] = {};  // by EndReason
    int64_t num_preemptions = 0;
    int64_t num_hit_tokens = 0;
    int64_t num_full_hits = 0;
    int64_t num_copies = 0;
    int64_t num_waits = 0;  // plans in which one waited for a prefix
  };
  static Totals totals;

  // ---- acts ----
  void Add(const Act& act);
  void Plan(const Act& /*act*/) { PlanStep(); }
  void Commit(const Act& /*act*/) { CommitStep(Fault::kNone, 0); }
  void LoseStep(const Act& /*act*/) { CommitStep(Fault::kStepLost, 0); }
  void NotFinite(const Act& act) { CommitStep(Fault::kNotFinite, act.a); }
  void NoToken(const Act& act) { CommitStep(Fault::kNoToken, act.a); }
  void End(const Act& act);
  void Advance(const Act& act) { now_ += act.a % 500; }
  void Touch(const Act& act) { TouchUpTo(touched_ + 1 + act.a % 4); }

  // ---- what acts are made of ----
  // False where the request is refused.
  bool AddRequest(const std::shared_ptr<const Request>& request);
  // Nothing, where max_steps_in_flight are.
  void PlanStep();
  // Commits the oldest step, if there is one; the fault hits its a-th sequence.
  void CommitStep(Fault fault, int32_t a);
  void EndOne(SequenceId id, EndReason reason);
  void Check() const;
  // Serves what there is to its end; then all memory can be had again.
  void Finish();

  bool HasWork() const { return scheduler_.HasWork(); }
  int32_t num_in_flight() const { return static_cast<int32_t>(in_flight_.size()); }
  // Sequences of the oldest step.
  int32_t num_results() const {
    return in_flight_.empty() ? 0 : static_cast<int32_t>(in_flight_.front().parts.size());
  }
  // Choices that ended with all that they could get: kLength or kStop.
  int32_t num_complete() const { return num_complete_; }
  int64_t num_preemptions() const { return scheduler_.Stats().num_preemptions; }
  int64_t num_hit_tokens() const { return scheduler_.Stats().prefix_hit_tokens; }
  int64_t num_copies() const { return num_copies_; }

 private:
  static constexpr int32_t kVocabSize = 12;

  // One choice of a request, from Add until it is told to have ended.
  struct Choice {
    std::shared_ptr<const Request> request;
    SequenceId first_id = 0;
    std::vector<int32_t> tokens;  // prompt, then all that it can get
    TimeUs added_at = 0;
    TimeUs first_planned_at = kNever;
    int32_t num_told = 0;         // tokens
    int64_t num_rows = 0;         // planned
    int64_t num_kv_rows = 0;      // planned, and written
    int32_t num_prompt_rows = 0;  // planned, with logits owed
    int32_t seq_slot = -1;        // in the last plan with it,
    int32_t num_preemptions = 0;  // and how often it had been preempted then
    std::set<EndReason> may_end;  // beside the reasons that the request has
    bool must_end = false;        // with the next Plan or Commit
  };
  struct FlyingStep {
    uint64_t id = 0;
    struct Part {
      SequenceId id = 0;
      int32_t num_draws = 0;
    };
    std::vector<Part> parts;
  };
  struct Named {  // a block that a step in flight names
    BlockId block = kNoBlock;
    uint32_t generation = 0;
  };

  void TouchUpTo(int32_t n);
  std::shared_ptr<Request> RequestOf(const Act& act) const;
  bool IsBorn(SequenceId id) const { return scheduler_.Look(id) != nullptr; }
  // The choice ends, and with the first of a request those that have not come out of it.
  void MustEnd(SequenceId id, EndReason reason);
  bool IsOver(const Choice& choice) const;
  bool IsDue(const Choice& choice) const;
  bool MayEnd(const Choice& choice, EndReason reason) const;

  void CheckPlanned(const PlannedSequence& planned);
  void CheckWrites(const StepPlan& plan) const;
  void CheckReservedAreServed(const StepPlan& plan) const;
  void NameBlocks(const StepPlan& plan);
  void Told(const CommitResult& result);
  void Told(const std::vector<EndedSequence>& ended);
  void CheckEnd(const EndedSequence& end, const Choice& choice) const;
  void CheckDueAreGone() const;
  void ServeAll();
  void FillThePool();

  const SchedulerConfig config_;
  Scheduler scheduler_;
  ShadowKv device_;  // checks the limits of a step, too
  std::deque<FlyingStep> in_flight_;
  std::map<uint64_t, std::vector<Named>> named_;  // by step
  std::map<SequenceId, Choice> choices_;          // that have not ended
  std::vector<std::vector<int32_t>> histories_;   // prompts and answers, for later turns
  SequenceId next_id_ = 1;
  TimeUs now_ = 0;
  int32_t touched_ = 0;
  int32_t num_complete_ = 0;
  int64_t num_copies_ = 0;
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_SCHEDULER_WORLD_H_
