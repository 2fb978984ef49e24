#ifndef QUIRE_TESTS_SIM_WORLD_H_
#define QUIRE_TESTS_SIM_WORLD_H_

#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "engine/inbox.h"
#include "scheduler/scheduler.h"
#include "tests/sim/coverage.h"
#include "tests/sim/ledger.h"
#include "tests/sim/plan_rules.h"
#include "tests/sim/shadow_kv.h"
#include "tests/sim/workload.h"

namespace quire {

// What World simulates; everything else comes from the seed.
struct SimScenario {
  uint64_t seed = 0;
  SimPair target;                // an event that is to meet a sequence in this state
  bool has_other_faults = true;  // beside the target
  const std::vector<TraceRequest>* trace = nullptr;  // requests to replay
  bool prints = false;                               // every step, for a replay
};

// World plays one scenario on virtual time, all of it from one seed: clients that send and go away,
// an engine loop that takes its inbox, plans, launches and commits like engine/engine_loop.cc (but
// up to max_steps_in_flight steps ahead), a device that takes its time, memory that becomes usable
// bit by bit, signals, and faults. Scheduler, paged_kv and Inbox are the real ones.
//
// One thread, no clock.
class World {
 public:
  World(const SimScenario& scenario, Coverage* coverage);
  // "" or the first thing that went wrong.
  std::string Play();

 private:
  enum class What : uint8_t { kArrival, kClientGoes, kStepDone, kTouch, kSecondSignal, kWake };
  struct Event {
    TimeUs at = 0;
    uint64_t order = 0;  // of those at the same time
    What what = What::kWake;
    SequenceId id = 0;
    EndReason reason = EndReason::kCancelled;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct FlyingPart {
    SequenceId id = 0;
    bool draws = false;
  };
  struct FlyingStep {
    uint64_t id = 0;
    TimeUs done_at = 0;
    std::vector<FlyingPart> parts;
    bool fails = false;
    std::set<SequenceId> broken;
    std::set<SequenceId> without_token;
  };

  std::string DescribeConfig() const;
  void ChooseConfig();
  void ShapeConfigForTarget();
  bool NeedsPreemption() const;
  void Schedule(TimeUs at, What what, SequenceId id = 0, EndReason reason = EndReason::kCancelled);
  void Happen(const Event& event);
  // `text()` is made only where it is printed.
  template <typename Text>
  void Print(const Text& text) const {
    if (scenario_.prints) std::printf("%9lld  %s\n", static_cast<long long>(now_), text().c_str());
  }

  // Clients.
  void Arrive();
  void Submit(const SimArrival& arrival);
  void GiveLimit(Request* request) const;
  // The engine loop.
  void EngineTurn();
  void TakeInbox();
  bool PlanStep();
  void CommitStep();
  std::vector<SequenceResult> ResultsOf(const FlyingStep& step,
                                        const std::vector<ExecutedSequence>& executed);
  TimeUs DurationOf(const StepPlan& plan);
  void CheckState();
  void TouchMore();
  void FillPool();
  // Events that are brought about.
  void Provoke();
  void ProvokeTarget();
  bool CanBefall(SimEvent event, SequenceId id);
  void Befall(SimEvent event, SequenceId id);
  FlyingStep* StepWith(SequenceId id, bool with_draw);
  void EndNow(SequenceId id, EndReason reason);
  void CountForAll(SimEvent event);
  void FirstSignal();
  void SecondSignal();

  const SimScenario scenario_;
  Coverage& coverage_;
  SimRandom random_;
  SchedulerConfig config_;
  int32_t vocab_size_ = 0;
  bool writes_land_early_ = false;
  int32_t num_inbox_places_ = 0;
  Verdict verdict_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ShadowKv> device_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<PlanRules> rules_;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<Inbox> inbox_;

  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t next_order_ = 0;
  std::optional<SimArrival> next_arrival_;
  std::deque<FlyingStep> in_flight_;
  std::vector<std::vector<int32_t>> drawn_;  // of the step that commits
  InboxContent taken_;
  TimeUs now_ = 0;
  SequenceId next_id_ = 1;
  int32_t num_in_inbox_ = 0;
  int32_t touched_ = -1;  // -1: all from the start
  TimeUs touching_stalls_until_ = 0;
  bool is_draining_ = false;
  bool wake_is_scheduled_ = false;
  int32_t num_provoked_ = 0;
  int64_t num_turns_ = 0;
  std::array<int32_t, kNumSimEvents> per_mille_ = {};  // how likely each fault is at each moment
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_WORLD_H_
