#ifndef QUIRE_ENGINE_STEP_TIMES_H_
#define QUIRE_ENGINE_STEP_TIMES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/request.h"

namespace quire {

// The parts of a step, in their order: what to do, the device's work with its input, what became of
// it, telling the listeners.
enum class StepPhase : uint8_t { kPlan, kRun, kCommit, kTell };
inline constexpr size_t kNumStepPhases = 4;
inline constexpr std::array<const char*, kNumStepPhases> kStepPhaseNames = {"plan", "run", "commit",
                                                                            "tell"};

// How long did steps take, and when was the last one? Histograms since the start, by phase; a plain
// value, copied by whoever wants to look. Turns of the loop without rows are no steps.
struct StepTimes {
  // Upper bounds of the buckets; the last bucket has none.
  static constexpr std::array<TimeUs, 18> kBoundsUs = {
      10,     30,     100,     300,     1000,    2000,      5000,      10'000,    20'000,
      30'000, 50'000, 100'000, 200'000, 500'000, 1'000'000, 2'000'000, 5'000'000, 10'000'000};

  struct Phase {
    std::array<int64_t, kBoundsUs.size() + 1> counts = {};
    TimeUs sum_us = 0;
  };

  std::array<Phase, kNumStepPhases> phases;
  TimeUs last_step_at = kNever;  // when it was over, on the engine's clock; kNever: none yet

  // A step that is over, with its time in each phase.
  void Add(const std::array<TimeUs, kNumStepPhases>& took_us, TimeUs now);
};

}  // namespace quire

#endif  // QUIRE_ENGINE_STEP_TIMES_H_
