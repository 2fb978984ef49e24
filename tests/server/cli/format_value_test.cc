#include "server/cli/format_value.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "server/cli/parse_value.h"

namespace quire::cli {
namespace {

TEST(FormatSize, TakesTheLargestUnitThatDividesIt) {
  EXPECT_EQ(FormatSize(0), "0");
  EXPECT_EQ(FormatSize(1000), "1000");
  EXPECT_EQ(FormatSize(1024), "1KiB");
  EXPECT_EQ(FormatSize(1025), "1025");
  EXPECT_EQ(FormatSize(int64_t{4} << 30), "4GiB");
  EXPECT_EQ(FormatSize(int64_t{1536} << 20), "1536MiB");
}

TEST(FormatDurationMs, TakesTheLargestUnitThatDividesIt) {
  EXPECT_EQ(FormatDurationMs(0), "0ms");
  EXPECT_EQ(FormatDurationMs(250), "250ms");
  EXPECT_EQ(FormatDurationMs(5000), "5s");
  EXPECT_EQ(FormatDurationMs(90'000), "90s");
  EXPECT_EQ(FormatDurationMs(120'000), "2m");
}

TEST(FormatValue, ReadsBackAsTheSame) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const int64_t shift = static_cast<int64_t>(random() % 62);
    const int64_t size = static_cast<int64_t>(random() >> 1 >> shift) << (random() % (shift + 1));
    EXPECT_EQ(ParseSize(FormatSize(size)).value_or(-1), size);
    const int64_t ms = static_cast<int64_t>(random() % 1'000'000'000'000);
    EXPECT_EQ(ParseDurationMs(FormatDurationMs(ms), 1).value_or(-1), ms);
  }
  EXPECT_EQ(ParseSize(FormatSize(std::numeric_limits<int64_t>::max())).value_or(-1),
            std::numeric_limits<int64_t>::max());
}

TEST(FormatValue, HasNoTextForNoValue) {
  EXPECT_TRUE(FormatValue(std::optional<bool>()).empty());
  EXPECT_EQ(FormatValue(std::optional<bool>(false)), std::vector<std::string>{"false"});
  EXPECT_EQ(FormatValue(std::vector<int32_t>{1, -2}), std::vector<std::string>{"1,-2"});
}

}  // namespace
}  // namespace quire::cli
