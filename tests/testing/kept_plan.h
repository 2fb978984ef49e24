#ifndef QUIRE_TESTS_TESTING_KEPT_PLAN_H_
#define QUIRE_TESTS_TESTING_KEPT_PLAN_H_

#include <cstdint>
#include <vector>

#include "scheduler/step_plan.h"

namespace quire {

// KeptPlan is a plan that outlives what the scheduler does next: it has block tables of its own,
// and no requests.
struct KeptPlan : StepPlan {
  KeptPlan() = default;
  explicit KeptPlan(const StepPlan& plan) : StepPlan(plan) {
    tables.reserve(sequences.size());
    for (PlannedSequence& planned : sequences) {
      planned.block_tables =
          tables.emplace_back(planned.block_tables.begin(), planned.block_tables.end());
      planned.request = nullptr;
    }
  }
  KeptPlan(const KeptPlan& other) : KeptPlan(static_cast<const StepPlan&>(other)) {}
  KeptPlan(KeptPlan&&) = default;
  KeptPlan& operator=(const KeptPlan& other) { return *this = KeptPlan(other); }
  KeptPlan& operator=(KeptPlan&&) = default;
  ~KeptPlan() = default;

  std::vector<std::vector<std::vector<int32_t>>> tables;  // [sequences, num_groups, num_blocks]
};

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_KEPT_PLAN_H_
