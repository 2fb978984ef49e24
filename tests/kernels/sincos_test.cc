#include "kernels/cpu/sincos.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"

#include "kernels/cpu/rope_table.h"

namespace quire {
namespace {

// Distance from the value in extended precision, in units of the last place of double.
double UlpError(double actual, long double exact) {
  const double ulp = std::ldexp(1.0, std::ilogb(static_cast<double>(exact)) - 52);
  return static_cast<double>(std::abs(actual - exact)) / ulp;
}

TEST(SinCos, IsWithinTwoUlpUpToLongContexts) {
  std::mt19937_64 random(1);
  double worst = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    const double magnitude = std::exp2(static_cast<double>(random() % 4200) / 100 - 20);  // to 2^22
    const double angle = magnitude * (1 + static_cast<double>(random() >> 12) * 0x1p-52);
    const SinCos value = SinCosOf(angle);
    worst = std::max(worst, UlpError(value.sin, std::sin(static_cast<long double>(angle))));
    worst = std::max(worst, UlpError(value.cos, std::cos(static_cast<long double>(angle))));
  }
  EXPECT_LT(worst, 2.0);
}

TEST(SinCos, IsOddAndEven) {
  for (double angle = 0; angle < 20; angle += 0.37) {
    EXPECT_EQ(SinCosOf(-angle).sin, -SinCosOf(angle).sin);
    EXPECT_EQ(SinCosOf(-angle).cos, SinCosOf(angle).cos);
  }
  EXPECT_EQ(SinCosOf(0).sin, 0);
  EXPECT_EQ(SinCosOf(0).cos, 1);
}

TEST(RopeTable, HoldsAnglesRoundedOnce) {
  ThreadPool pool(2);
  constexpr int kPositions = 1000;
  const double inv_freq[] = {1.0, 0.13, 1e-4};
  const RopeTable table(inv_freq, 0.5, kPositions, &pool);
  EXPECT_EQ(table.half_dim(), 3);
  EXPECT_EQ(table.max_positions(), kPositions);
  for (int position = 0; position < kPositions; ++position) {
    for (int i = 0; i < 3; ++i) {
      const long double angle = position * inv_freq[i];
      EXPECT_FLOAT_EQ(table.Cos(position)[i], static_cast<float>(0.5L * std::cos(angle)));
      EXPECT_FLOAT_EQ(table.Sin(position)[i], static_cast<float>(0.5L * std::sin(angle)));
    }
  }
}

}  // namespace
}  // namespace quire
