#include "server/cli/bench/arrivals.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::cli::bench {
namespace {

using testing::ElementsAre;

TEST(Arrivals, FixedOnesAreEvenlySpaced) {
  EXPECT_THAT(Arrivals(ArrivalKind::kFixed, 4, 2, 1), ElementsAre(0, 0.5, 1, 1.5));
}

// Gaps of Poisson arrivals are exponential: mean and standard deviation are both 1 / rate, and a
// gap is longer than t with probability exp(-rate t).
TEST(Arrivals, GapsOfPoissonArrivalsAreExponential) {
  constexpr int kCount = 100'001;
  constexpr double kRate = 4;
  for (const uint64_t seed : {1, 2, 3}) {
    const std::vector<double> arrivals = Arrivals(ArrivalKind::kPoisson, kCount, kRate, seed);
    double sum = 0, squares = 0;
    int num_long = 0;
    for (int i = 1; i < kCount; ++i) {
      const double gap = arrivals[i] - arrivals[i - 1];
      ASSERT_GE(gap, 0);
      sum += gap;
      squares += gap * gap;
      if (gap > 0.5) ++num_long;
    }
    constexpr double kGaps = kCount - 1;
    const double mean = sum / kGaps;
    // Four standard errors, or about 1 %.
    EXPECT_NEAR(mean, 1 / kRate, 4 / kRate / std::sqrt(kGaps)) << "seed " << seed;
    EXPECT_NEAR(std::sqrt(squares / kGaps - mean * mean), 1 / kRate, 0.02 / kRate);
    EXPECT_NEAR(num_long / kGaps, std::exp(-0.5 * kRate), 0.005);
  }
}

TEST(Arrivals, TheSeedDecidesThem) {
  const auto of = [](uint64_t seed) { return Arrivals(ArrivalKind::kPoisson, 10, 1, seed); };
  EXPECT_EQ(of(7), of(7));
  EXPECT_NE(of(7), of(8));
  EXPECT_EQ(of(7).front(), 0);
}

}  // namespace
}  // namespace quire::cli::bench
