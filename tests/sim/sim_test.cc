// Random scenarios, checked in full. README.md says how to replay one: QUIRE_SIM_SEED plays that
// one alone and prints every step, with QUIRE_SIM_TARGET aimed at that pair of state and event
// without other faults; QUIRE_SIM_FIRST_SEED begins elsewhere, QUIRE_SIM_SECONDS plays for longer.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/sim/world.h"
#include "tests/testing/test_files.h"

namespace quire {
namespace {

std::string how_to_replay;

// A CHECK that fails ends the process: say for which seed.
void PrintSeed(int /*signal*/) { std::fprintf(stderr, "%s\n", how_to_replay.c_str()); }

uint64_t NumberFrom(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Rotates by date, so that a day's failures are the same on every machine.
uint64_t FirstSeed() {
  const auto days = std::chrono::duration_cast<std::chrono::hours>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count() /
                    24;
  return NumberFrom("QUIRE_SIM_FIRST_SEED", static_cast<uint64_t>(days) << 32);
}

// Every now and then, one of the traces that are here: the only thing that a seed does not decide.
const std::vector<TraceRequest>* TraceFor(uint64_t seed) {
  static const std::vector<TraceRequest> traces[] = {
      ReadTrace(OwnGoldenPath("traces/lengths.jsonl")),
      ReadTrace(ThirdPartyGoldenPath("../traces/conversation_trace.jsonl")),
      ReadTrace(ThirdPartyGoldenPath("../traces/synthetic_trace.jsonl"))};
  const uint64_t which = seed % 16;
  return which < std::size(traces) && !traces[which].empty() ? &traces[which] : nullptr;
}

// Pairs that nothing can bring about but a scenario that is made for them.
constexpr SimPair kComeByThemselves[] = {{SimState::kRecompute, SimEvent::kPreempt},
                                         {SimState::kRecomputeInFlight, SimEvent::kPreempt},
                                         {SimState::kPreemptedInFlight, SimEvent::kStop}};

// Which pairs are aimed at, in turn: those that are rarely met otherwise more often.
std::vector<SimPair> Targets() {
  std::vector<SimPair> targets;
  for (const SimPair pair : ProvokedPairs()) {
    const bool is_rare_state =
        pair.state == SimState::kWaitsForPrefix || pair.state == SimState::kPrefill ||
        (pair.state >= SimState::kPreempted && pair.state <= SimState::kPreemptedInFlight) ||
        pair.state >= SimState::kRecompute;
    // Once a scenario at most, or several scenarios' time at once.
    const bool is_rare_event =
        pair.event == SimEvent::kFirstSignal || pair.event == SimEvent::kSecondSignal ||
        pair.event == SimEvent::kDeadline || pair.event == SimEvent::kTimeLimit;
    targets.insert(targets.end(), 1 + 2 * is_rare_state + 3 * (is_rare_state && is_rare_event),
                   pair);
  }
  for (const SimPair pair : kComeByThemselves) targets.insert(targets.end(), 40, pair);
  return targets;
}

// Everything of a scenario follows from its seed.
SimScenario ScenarioOf(uint64_t seed) {
  static const std::vector<SimPair> targets = Targets();
  SimScenario scenario;
  scenario.seed = seed;
  scenario.target = targets[seed % targets.size()];
  scenario.has_other_faults = MixBits(seed) % 2 == 0;
  scenario.trace = TraceFor(seed);
  return scenario;
}

// The `target`-th pair alone, so that nothing else explains what happens.
SimScenario ScenarioAimedAt(size_t target, uint64_t seed) {
  SimScenario scenario;
  scenario.seed = seed;
  std::vector<SimPair> pairs = ProvokedPairs();
  pairs.insert(pairs.end(), std::begin(kComeByThemselves), std::end(kComeByThemselves));
  scenario.target = pairs[target % pairs.size()];
  scenario.has_other_faults = false;
  return scenario;
}

// False: it failed.
bool Play(const SimScenario& scenario, const std::string& replay, Coverage* coverage) {
  how_to_replay = "replay with " + replay;
  std::signal(SIGABRT, PrintSeed);
  const std::string wrong = World(scenario, coverage).Play();
  if (wrong.empty()) return true;
  ADD_FAILURE() << wrong << "\n  " << how_to_replay;
  return false;
}

TEST(SimTest, RandomTrafficAndFaultsServeEveryTokenRightAndEndEverySequenceOnce) {
  Coverage coverage;
  const bool is_aimed = std::getenv("QUIRE_SIM_TARGET") != nullptr;
  const uint64_t target = NumberFrom("QUIRE_SIM_TARGET", 0);
  const auto scenario_of = [&](uint64_t seed) {
    return is_aimed ? ScenarioAimedAt(target, seed) : ScenarioOf(seed);
  };
  if (std::getenv("QUIRE_SIM_SEED") != nullptr) {
    SimScenario scenario = scenario_of(NumberFrom("QUIRE_SIM_SEED", 0));
    scenario.prints = true;
    Play(scenario, "the same", &coverage);
    return;
  }
  const uint64_t first = FirstSeed();
  std::printf("first seed %llu\n", static_cast<unsigned long long>(first));
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(NumberFrom("QUIRE_SIM_SECONDS", 20));
  // On a machine so busy that the time is over too soon, the counts still mean something.
  for (uint64_t i = 0; i < 300 || std::chrono::steady_clock::now() < end; ++i) {
    const std::string replay = absl::StrCat(
        "QUIRE_SIM_SEED=", first + i, is_aimed ? absl::StrCat(" QUIRE_SIM_TARGET=", target) : "");
    if (!Play(scenario_of(first + i), replay, &coverage)) return;
  }
  std::printf("%s\n%s\n", coverage.Summary().c_str(), coverage.Table().c_str());
  if (is_aimed) return;
  EXPECT_GE(coverage.eventful_steps * 20, coverage.steps) << "at least 5 % of the steps";
  EXPECT_GT(coverage.preemptions, 0);
  EXPECT_GT(coverage.full_hits, 0);
  EXPECT_GT(coverage.copies, 0);
  EXPECT_GT(coverage.draws_of_several, 0);
  EXPECT_GT(coverage.failed_steps, 0);
  for (int i = 0; i <= static_cast<int>(EndReason::kEngineFailed); ++i) {
    EXPECT_GT(coverage.ends[i], 0) << EndReasonName(static_cast<EndReason>(i));
  }
}

TEST(SimTest, EveryEventMeetsEveryStateThatItCanMeet) {
  const uint64_t first = FirstSeed() + (uint64_t{1} << 31);
  Coverage coverage;
  const std::vector<SimPair> pairs = ProvokedPairs();
  for (size_t target = 0; target < pairs.size(); ++target) {
    const auto [state, event] = pairs[target];
    const int64_t& met = coverage.met[static_cast<size_t>(state)][static_cast<size_t>(event)];
    for (uint64_t i = 0; met < 3; ++i) {
      const std::string replay =
          absl::StrCat("QUIRE_SIM_SEED=", first + i, " QUIRE_SIM_TARGET=", target);
      ASSERT_LT(i, 300) << "never met: " << replay;
      if (!Play(ScenarioAimedAt(target, first + i), replay, &coverage)) return;
    }
  }
  std::printf("%s\n", coverage.Table().c_str());
}

}  // namespace
}  // namespace quire
