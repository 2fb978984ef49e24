// Random scenarios, checked in full. The first line printed says the first seed.
//   QUIRE_SIM_SEED=n         plays scenario n alone and prints every step
//   QUIRE_SIM_FIRST_SEED=n   instead of today's
//   QUIRE_SIM_SECONDS=n      how long random scenarios are played
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

#include "tests/sim/world.h"

namespace quire {
namespace {

uint64_t current_seed = 0;

// A CHECK that fails ends the process: say for which seed.
void PrintSeed(int /*signal*/) {
  std::fprintf(stderr, "replay with QUIRE_SIM_SEED=%llu\n",
               static_cast<unsigned long long>(current_seed));
}

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

const std::vector<TraceRequest>* TraceFor(uint64_t seed) {
  static const std::vector<TraceRequest> traces[] = {
      ReadTrace(std::string(std::getenv("QUIRE_TEST_DATA") == nullptr
                                ? ""
                                : std::getenv("QUIRE_TEST_DATA")) +
                "/traces/lengths.jsonl"),
      ReadTrace(
          std::string(std::getenv("QUIRE_GOLDEN") == nullptr ? "" : std::getenv("QUIRE_GOLDEN")) +
          "/../traces/conversation_trace.jsonl"),
      ReadTrace(
          std::string(std::getenv("QUIRE_GOLDEN") == nullptr ? "" : std::getenv("QUIRE_GOLDEN")) +
          "/../traces/synthetic_trace.jsonl")};
  if (seed % 16 >= 3 || traces[seed % 16].empty()) return nullptr;
  return &traces[seed % 16];
}

// Which pairs are aimed at, in turn: those that are rarely met otherwise more often.
std::vector<SimPair> Targets() {
  std::vector<SimPair> targets;
  for (const SimPair pair : ProvokedPairs()) {
    const bool is_rare_state =
        pair.state == SimState::kWaitsForPrefix || pair.state == SimState::kPrefill ||
        (pair.state >= SimState::kPreempted && pair.state <= SimState::kPreemptedInFlight) ||
        pair.state >= SimState::kRecompute;
    // Once a scenario at most.
    const bool is_rare_event =
        pair.event == SimEvent::kFirstSignal || pair.event == SimEvent::kSecondSignal;
    targets.insert(targets.end(), 1 + 2 * is_rare_state + 3 * (is_rare_state && is_rare_event),
                   pair);
  }
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

// False: it failed.
bool Play(const SimScenario& scenario, Coverage* coverage) {
  std::signal(SIGABRT, PrintSeed);
  current_seed = scenario.seed;
  const std::string wrong = World(scenario, coverage).Play();
  if (wrong.empty()) return true;
  ADD_FAILURE() << wrong << "\n  replay with QUIRE_SIM_SEED=" << scenario.seed;
  return false;
}

TEST(SimTest, RandomTrafficAndFaultsServeEveryTokenRightAndEndEverySequenceOnce) {
  Coverage coverage;
  if (std::getenv("QUIRE_SIM_SEED") != nullptr) {
    SimScenario scenario = ScenarioOf(NumberFrom("QUIRE_SIM_SEED", 0));
    scenario.prints = true;
    Play(scenario, &coverage);
    return;
  }
  const uint64_t first = FirstSeed();
  std::printf("first seed %llu\n", static_cast<unsigned long long>(first));
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(NumberFrom("QUIRE_SIM_SECONDS", 20));
  // On a machine so busy that the time is over too soon, the counts still mean something.
  for (uint64_t i = 0; i < 300 || std::chrono::steady_clock::now() < end; ++i) {
    if (!Play(ScenarioOf(first + i), &coverage)) return;
  }
  std::printf("%s\n%s\n", coverage.Summary().c_str(), coverage.Table().c_str());
  EXPECT_GE(coverage.eventful_steps * 20, coverage.steps) << "at least 5 % of the steps";
  EXPECT_GT(coverage.preemptions, 0);
  EXPECT_GT(coverage.full_hits, 0);
  EXPECT_GT(coverage.copies, 0);
  EXPECT_GT(coverage.draws_of_several, 0);
  EXPECT_GT(coverage.failed_steps, 0);
}

// Each fault alone, so that nothing else explains what happens.
TEST(SimTest, EveryEventMeetsEveryStateThatItCanMeet) {
  const uint64_t first = FirstSeed() + (uint64_t{1} << 31);
  Coverage coverage;
  for (const SimPair pair : ProvokedPairs()) {
    const int64_t& met =
        coverage.met[static_cast<size_t>(pair.state)][static_cast<size_t>(pair.event)];
    for (uint64_t i = 0; met < 3; ++i) {
      ASSERT_LT(i, 300) << "state " << static_cast<int>(pair.state) << ", event "
                        << static_cast<int>(pair.event);
      SimScenario scenario;
      scenario.seed = first + i;
      scenario.target = pair;
      scenario.has_other_faults = false;
      if (!Play(scenario, &coverage)) return;
    }
  }
  std::printf("%s\n", coverage.Table().c_str());
}

}  // namespace
}  // namespace quire
