#include "engine/step_times.h"

#include <numeric>

#include "gtest/gtest.h"

namespace quire {
namespace {

TEST(StepTimesTest, ATimeIsInTheBucketWhoseBoundItDoesNotPass) {
  StepTimes times;
  EXPECT_EQ(times.last_step_at, kNever);
  times.Add({10, 11, 10'000'000, 10'000'001}, 77);
  EXPECT_EQ(times.last_step_at, 77);
  EXPECT_EQ(times.phases[0].counts.front(), 1);
  EXPECT_EQ(times.phases[1].counts[1], 1);
  EXPECT_EQ(times.phases[2].counts[StepTimes::kBoundsUs.size() - 1], 1);
  EXPECT_EQ(times.phases[3].counts.back(), 1);
  times.Add({1, 2, 3, 4}, 99);
  EXPECT_EQ(times.last_step_at, 99);
  for (const StepTimes::Phase& phase : times.phases) {
    EXPECT_EQ(std::accumulate(phase.counts.begin(), phase.counts.end(), int64_t{0}), 2);
  }
  EXPECT_EQ(times.phases[1].sum_us, 13);
}

}  // namespace
}  // namespace quire
