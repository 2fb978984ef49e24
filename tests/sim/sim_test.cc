// Random scenarios against a shadow of the KV memory. Replay one with QUIRE_SIM_SEED=<seed>.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "gtest/gtest.h"

#include "tests/sim/sim_world.h"

namespace quire {
namespace {

// On a machine so busy that the time is over too soon, the counts below still mean something.
constexpr int64_t kFewestScenarios = 100;

uint64_t current_seed = 0;

// A CHECK that fails ends the process: say for which seed.
void PrintSeed(int /*signal*/) {
  std::fprintf(stderr, "QUIRE_SIM_SEED=%llu\n", static_cast<unsigned long long>(current_seed));
}

SimCounts PlayFor(std::chrono::milliseconds budget) {
  std::signal(SIGABRT, PrintSeed);
  SimCounts counts;
  const char* replayed = std::getenv("QUIRE_SIM_SEED");
  current_seed = replayed != nullptr ? std::strtoull(replayed, nullptr, 10)
                                     : uint64_t{std::random_device()()} << 20;
  std::printf("first seed %llu\n", static_cast<unsigned long long>(current_seed));
  const auto end = std::chrono::steady_clock::now() + budget;
  do {
    SimWorld(current_seed, replayed != nullptr, &counts).Play(60);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "replay with QUIRE_SIM_SEED=" << current_seed;
      break;
    }
    ++current_seed;
  } while (replayed == nullptr &&
           (counts.scenarios < kFewestScenarios || std::chrono::steady_clock::now() < end));
  return counts;
}

TEST(SimTest, RandomScenariosServeEveryTokenRightAndEndEverySequenceOnce) {
  const SimCounts counts = PlayFor(std::chrono::seconds(10));
  std::printf(
      "%lld scenarios, %lld requests (%lld refused), %lld steps (%lld failed), "
      "%lld preemptions, %lld hit tokens, %lld full hits, %lld block copies, %lld overtakes\n",
      static_cast<long long>(counts.scenarios), static_cast<long long>(counts.requests),
      static_cast<long long>(counts.refused), static_cast<long long>(counts.steps),
      static_cast<long long>(counts.failed_steps), static_cast<long long>(counts.preemptions),
      static_cast<long long>(counts.hit_tokens), static_cast<long long>(counts.full_hits),
      static_cast<long long>(counts.copies), static_cast<long long>(counts.overtakes));
  if (std::getenv("QUIRE_SIM_SEED") != nullptr) return;
  EXPECT_GT(counts.requests, 1000);
  EXPECT_GT(counts.preemptions, 0);
  EXPECT_GT(counts.full_hits, 0);
  EXPECT_GT(counts.copies, 0);
  EXPECT_GT(counts.draws_of_several, 0);
  EXPECT_GT(counts.failed_steps, 0);
  for (const EndReason reason :
       {EndReason::kStop, EndReason::kLength, EndReason::kAborted, EndReason::kCancelled,
        EndReason::kTimeLimit, EndReason::kDeadline, EndReason::kQueueTimeout,
        EndReason::kNumericalFault, EndReason::kEngineFailed}) {
    EXPECT_GT(counts.ends[static_cast<int>(reason)], 0) << EndReasonName(reason);
  }
}

}  // namespace
}  // namespace quire
