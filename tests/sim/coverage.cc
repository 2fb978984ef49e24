#include "tests/sim/coverage.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace quire {
namespace {

constexpr const char* kStateNames[kNumSimStates] = {"queued",
                                                    "waits for prefix",
                                                    "preempted",
                                                    "preempted, in flight",
                                                    "choice waits",
                                                    "unborn",
                                                    "prefill",
                                                    "prefill, in flight",
                                                    "decode",
                                                    "decode, in flight",
                                                    "last token in flight",
                                                    "recompute",
                                                    "recompute, in flight"};
constexpr const char* kEventNames[kNumSimEvents] = {
    "cancel", "abort", "slow",  "deadl", "t.lim", "q.tim", "fails",  "NaN",    "none",
    "1st",    "2nd",   "clock", "delay", "stall", "stop",  "length", "preempt"};

bool IsInFlight(SimState state) {
  return state == SimState::kPreemptedInFlight || state == SimState::kPrefillInFlight ||
         state == SimState::kDecodeInFlight || state == SimState::kLastInFlight ||
         state == SimState::kRecomputeInFlight;
}

}  // namespace

SimState StateOf(const Sequence* sequence) {
  if (sequence == nullptr) return SimState::kUnborn;
  const bool in_flight = sequence->num_steps_in_flight > 0;
  if (!sequence->is_running) {
    if (in_flight) return SimState::kPreemptedInFlight;
    if (!sequence->waiting_on.is_none()) return SimState::kWaitsForPrefix;
    if (sequence->num_preemptions > 0) return SimState::kPreempted;
    return sequence->choice > 0 ? SimState::kChoiceWaits : SimState::kQueued;
  }
  if (in_flight && sequence->num_remaining() == 0) return SimState::kLastInFlight;
  const bool is_again = sequence->num_preemptions > 0 && !sequence->is_decoding();
  if (is_again) return in_flight ? SimState::kRecomputeInFlight : SimState::kRecompute;
  if (sequence->num_computed_tokens < sequence->num_prompt_tokens) {
    return in_flight ? SimState::kPrefillInFlight : SimState::kPrefill;
  }
  return in_flight ? SimState::kDecodeInFlight : SimState::kDecode;
}

bool IsLegal(SimPair pair) {
  // Only the last row of what there is draws, so a chunk of a prompt's middle does not. A choice
  // may come into being with a token that ends it.
  const bool draws = pair.state == SimState::kDecodeInFlight ||
                     pair.state == SimState::kLastInFlight ||
                     pair.state == SimState::kPreemptedInFlight;
  switch (pair.event) {
    case SimEvent::kStepFails:
    case SimEvent::kRowIsNaN:
    case SimEvent::kSlowStep:
      return IsInFlight(pair.state);
    case SimEvent::kNothingToDraw:
      return draws;
    case SimEvent::kStop:
      return draws || pair.state == SimState::kUnborn;
    case SimEvent::kLength:
      return pair.state == SimState::kLastInFlight || pair.state == SimState::kPreemptedInFlight ||
             pair.state == SimState::kUnborn;
    case SimEvent::kPreempt:
      return pair.state >= SimState::kPrefill;
    case SimEvent::kMemoryStalls:
      // While memory is still on its way, hardly anybody is preempted.
      return pair.state != SimState::kPreempted && pair.state != SimState::kPreemptedInFlight &&
             pair.state != SimState::kRecompute && pair.state != SimState::kRecomputeInFlight;
    default:
      return true;
  }
}

std::vector<SimPair> ProvokedPairs() {
  std::vector<SimPair> pairs;
  for (size_t state = 0; state < kNumSimStates; ++state) {
    for (size_t event = 0; event < static_cast<size_t>(SimEvent::kStop); ++event) {
      const SimPair pair{static_cast<SimState>(state), static_cast<SimEvent>(event)};
      if (IsLegal(pair)) pairs.push_back(pair);
    }
  }
  return pairs;
}

int64_t Coverage::LeastMet() const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t state = 0; state < kNumSimStates; ++state) {
    for (size_t event = 0; event < kNumSimEvents; ++event) {
      if (IsLegal({static_cast<SimState>(state), static_cast<SimEvent>(event)})) {
        least = std::min(least, met[state][event]);
      }
    }
  }
  return least;
}

std::string Coverage::Table() const {
  std::string text = absl::StrFormat("%-22s", "state x event");
  for (const char* name : kEventNames) absl::StrAppendFormat(&text, "%8s", name);
  for (size_t state = 0; state < kNumSimStates; ++state) {
    absl::StrAppendFormat(&text, "\n%-22s", kStateNames[state]);
    for (size_t event = 0; event < kNumSimEvents; ++event) {
      const bool is_legal = IsLegal({static_cast<SimState>(state), static_cast<SimEvent>(event)});
      const int64_t count = met[state][event];
      absl::StrAppendFormat(&text, "%8s",
                            is_legal || count > 0 ? absl::StrCat(count) : std::string("-"));
    }
  }
  return text;
}

std::string Coverage::Summary() const {
  return absl::StrFormat(
      "%d scenarios, %d requests (%d refused), %d steps (%.1f %% with a preemption, sharing or a "
      "fault; %d failed), %d preemptions, %d hit tokens, %d full hits, %d block copies, "
      "%d overtakes, %.1f hours of virtual time; each legal pair met at least %d times",
      scenarios, requests, refused, steps,
      100.0 * static_cast<double>(eventful_steps) /
          static_cast<double>(std::max<int64_t>(1, steps)),
      failed_steps, preemptions, hit_tokens, full_hits, copies, overtakes,
      static_cast<double>(virtual_us) / 3.6e9, LeastMet());
}

}  // namespace quire
