// Scheduler beside a model that knows what every request must get.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "gtest/gtest.h"

#include "tests/sim/acts.h"
#include "tests/sim/scheduler_world.h"

namespace quire {
namespace {

TEST(SchedulerProperties, EverySequenceGetsItsTokensAndEndsOnceAndGivesAllBack) {
  CheckWorld<SchedulerWorld>(std::chrono::seconds(8), 150);
  if (std::getenv("RC_PARAMS") != nullptr) return;
  const SchedulerWorld::Totals& totals = SchedulerWorld::totals;
  EXPECT_GT(totals.num_preemptions, 0);
  EXPECT_GT(totals.num_hit_tokens, 0);
  EXPECT_GT(totals.num_full_hits, 0);
  EXPECT_GT(totals.num_copies, 0);
  EXPECT_GT(totals.num_waits, 0);
  for (int reason = 0; reason < 12; ++reason) {
    EXPECT_GT(totals.num_ended[reason], 0) << EndReasonName(static_cast<EndReason>(reason));
  }
  std::printf("%lld preemptions, %lld tokens hit, %lld full hits, %lld copies, %lld waits\n",
              static_cast<long long>(totals.num_preemptions),
              static_cast<long long>(totals.num_hit_tokens),
              static_cast<long long>(totals.num_full_hits),
              static_cast<long long>(totals.num_copies), static_cast<long long>(totals.num_waits));
}

// Shrunken lists of acts that once failed, as RapidCheck printed them, with their variant; none so
// far. The one here is of the kind: a step is lost while another one reads what it wrote.
TEST(SchedulerProperties, RegressionsStayFixed) {
  EXPECT_EQ(Play<SchedulerWorld>(1, {{"Touch", 3},
                                     {"Touch", 3},
                                     {"Add", 20, 4},
                                     {"Plan"},
                                     {"Plan"},
                                     {"Add", 20, 4},
                                     {"Commit"},
                                     {"Plan"},
                                     {"LoseStep"},
                                     {"Plan"},
                                     {"Commit"}}),
            "");
}

}  // namespace
}  // namespace quire
