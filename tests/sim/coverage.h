#ifndef QUIRE_TESTS_SIM_COVERAGE_H_
#define QUIRE_TESTS_SIM_COVERAGE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace quire {

// Where a sequence is in its life, as the scheduler tells. "In flight": a step that is not
// committed has rows of it.
enum class SimState : uint8_t {
  kQueued,             // never scheduled
  kWaitsForPrefix,     // somebody else is computing its prefix
  kPreempted,          // lost its blocks, waits
  kPreemptedInFlight,  // likewise
  kChoiceWaits,        // a later choice with its first token, waits for its place
  kUnborn,             // a later choice whose prompt is not computed yet
  kPrefill,
  kPrefillInFlight,
  kDecode,
  kDecodeInFlight,
  kLastInFlight,  // its last token is being drawn
  kRecompute,     // running again after a preemption, not yet where it was
  kRecomputeInFlight,
  kCount,
};

// What can befall it. Those before kStop are done to it by the simulation: cancellations, limits of
// time, signals, and the faults that have a probability. The others come by themselves.
enum class SimEvent : uint8_t {
  kCancel,
  kAbort,
  kSlowReader,
  kDeadline,
  kTimeLimit,
  kQueueTimeout,
  kStepFails,
  kRowIsNaN,
  kNothingToDraw,
  kFirstSignal,   // what never was scheduled ends, the rest goes on
  kSecondSignal,  // everything ends
  kClockJump,
  kSlowStep,
  kMemoryStalls,  // no more blocks are touched for a while
  kStop,
  kLength,
  kPreempt,
  kCount,
};

inline constexpr size_t kNumSimStates = static_cast<size_t>(SimState::kCount);
inline constexpr size_t kNumSimEvents = static_cast<size_t>(SimEvent::kCount);

struct SimPair {
  SimState state = SimState::kQueued;
  SimEvent event = SimEvent::kCancel;
};

// The state of a sequence, ended ones excluded. Null: it is not born yet.
SimState StateOf(const Sequence* sequence);
// Whether the event can meet a sequence in that state. A queue timeout can meet any: it has an
// effect on those only that were never scheduled.
bool IsLegal(SimPair pair);
// Those that the simulation can bring about on purpose.
std::vector<SimPair> ProvokedPairs();

// What simulations did: so that a test can say that it was not vacuous. Added up over many.
struct Coverage {
  int64_t scenarios = 0;
  int64_t requests = 0;
  int64_t refused = 0;
  int64_t steps = 0;
  int64_t eventful_steps = 0;  // with a preemption, a shared block or a fault
  int64_t failed_steps = 0;
  int64_t preemptions = 0;
  int64_t hit_tokens = 0;
  int64_t full_hits = 0;
  int64_t copies = 0;
  int64_t overtakes = 0;
  int64_t draws_of_several = 0;
  int64_t virtual_us = 0;
  std::array<std::array<int64_t, kNumSimEvents>, kNumSimStates> met = {};
  std::array<int64_t, 16> ends = {};  // by EndReason

  void Count(SimState state, SimEvent event) {
    ++met[static_cast<size_t>(state)][static_cast<size_t>(event)];
  }
  // The least that a legal pair was met.
  int64_t LeastMet() const;
  std::string Table() const;
  std::string Summary() const;
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_COVERAGE_H_
