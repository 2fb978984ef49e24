#ifndef QUIRE_TESTS_SIM_PLAN_RULES_H_
#define QUIRE_TESTS_SIM_PLAN_RULES_H_

#include <map>
#include <set>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/sim/ledger.h"

namespace quire {

// PlanRules checks what a plan owes to everybody: nobody who runs is skipped without need, nobody
// waits while there is room, nobody is passed too often, no step takes longer than it may, and
// blocks that are written belong to one sequence. Rules that ShadowKv and Ledger see are theirs.
//
// Owned by World, one thread.
class PlanRules {
 public:
  PlanRules(const SchedulerConfig& config, Verdict* verdict, Coverage* coverage)
      : config_(config), verdict_(*verdict), coverage_(*coverage) {}

  // Around each Plan. `ledger` has heard of the plan in the second call.
  void Before(const Scheduler& scheduler, const Ledger& ledger);
  void After(const Scheduler& scheduler, const StepPlan& plan, Ledger* ledger);
  // After each call.
  void CheckCached(const BlockPool& pool);

 private:
  struct SeenBlock {
    uint32_t generation = 0;
    bool is_held_and_cached = false;
  };
  int32_t DemandOf(const Sequence& sequence) const;
  void CheckWrites(const Scheduler& scheduler, const StepPlan& plan);
  void CheckRunning(const Scheduler& scheduler, const Ledger& ledger);
  void CheckChunks(const Scheduler& scheduler, const StepPlan& plan, const Ledger& ledger);
  void CheckTime(const StepPlan& plan);
  void CheckHead(const Scheduler& scheduler, const StepPlan& plan, const Ledger& ledger);
  void CheckPassing(const Scheduler& scheduler, Ledger* ledger);
  void CheckVictims(const Scheduler& scheduler, const Ledger& ledger);
  void CheckLentPriority(const Scheduler& scheduler, const Ledger& ledger);

  const SchedulerConfig config_;
  Verdict& verdict_;
  Coverage& coverage_;

  std::vector<SeenBlock> blocks_;  // [num_blocks]: after the last call
  // Before the plan.
  std::set<SequenceId> ran_;
  std::set<SequenceId> decoded_;          // ran, with one row to go: their clients wait for a token
  std::map<SequenceId, NodeRef> waited_;  // for which node; or for blocks, a slot, a row
  int64_t num_preemptions_ = 0;
  // After it.
  std::set<SequenceId> planned_;
  // Somebody lost its blocks: what it leaves, rows and blocks, is for the next plan.
  bool has_preempted_ = false;
  int32_t num_stalled_ = 0;  // run, have rows, got none
  bool decodes_ = false;
  bool reserves_ = false;  // for somebody who runs, blocks are set aside
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_PLAN_RULES_H_
