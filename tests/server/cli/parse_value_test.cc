#include "server/cli/parse_value.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "server/cli/command.h"

namespace quire::cli {
namespace {

TEST(ParseSize, SuffixesAreThoseOfVllm) {
  const struct {
    const char* text;
    int64_t size;
  } cases[] = {{"0", 0},
               {"4096", 4096},
               {"512B", 512},
               {"32k", 32'000},
               {"32K", 32'768},
               {"2m", 2'000'000},
               {"2MB", 2'000'000},
               {"1MiB", 1 << 20},
               {"4GiB", int64_t{4} << 30},
               {"4 GiB", int64_t{4} << 30},
               {"4G", int64_t{4} << 30},
               {"1.5GiB", int64_t{3} << 29},
               {"1T", int64_t{1} << 40},
               {"9223372036854775807", 9223372036854775807}};
  for (const auto& c : cases) {
    absl::StatusOr<int64_t> size = ParseSize(c.text);
    ASSERT_TRUE(size.ok()) << c.text;
    EXPECT_EQ(*size, c.size) << c.text;
  }
}

TEST(ParseSize, WhatIsNoSizeIsNamed) {
  for (const char* text : {"", "k", "-1", "4GG", "4Gib", "1.3", "1e3", "0x10", "1..5k", "nan",
                           "9223372036854775808", "9000000T", "12345678.5T"}) {
    absl::StatusOr<int64_t> size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_NE(std::string(size.status().message()).find(std::string("\"") + text + "\""),
              std::string::npos)
        << size.status();
  }
}

TEST(ParseDuration, UnitsAreMillisecondsSecondsAndMinutes) {
  EXPECT_EQ(*ParseDurationMs("5", 1000), 5000);
  EXPECT_EQ(*ParseDurationMs("5", 1), 5);
  EXPECT_EQ(*ParseDurationMs("0.25", 1000), 250);
  EXPECT_EQ(*ParseDurationMs("250ms", 1000), 250);
  EXPECT_EQ(*ParseDurationMs("2m", 1), 120'000);
  for (const char* text : {"", "s", "-1", "5h", "1e99s", "5 s"}) {
    EXPECT_FALSE(ParseDurationMs(text, 1).ok()) << text;
  }
}

TEST(ParseIds, AreWholeNumbersWithCommas) {
  EXPECT_EQ(*ParseIds("7"), std::vector<int32_t>({7}));
  EXPECT_EQ(*ParseIds("1, 2,3"), std::vector<int32_t>({1, 2, 3}));
  for (const char* text : {"", "1,", ",1", "1;2", "1.5", "2147483648", "a"}) {
    EXPECT_FALSE(ParseIds(text).ok()) << text;
  }
}

TEST(ParseValue, AFailureChangesNothing) {
  int32_t number = 5;
  EXPECT_FALSE(ParseValue("5x", &number).ok());
  EXPECT_FALSE(ParseValue("2147483648", &number).ok());
  EXPECT_EQ(number, 5);
  std::optional<bool> flag;
  EXPECT_FALSE(ParseValue("yes", &flag).ok());
  EXPECT_FALSE(flag.has_value());
  EXPECT_TRUE(ParseValue("true", &flag).ok());
  EXPECT_TRUE(*flag);
}

TEST(Flags, SizesOutOfTheirRangeAreRefused) {
  int32_t target = 3;
  const Flag flag = SizeFlag("--n", "N", "", &target, 1, 10);
  EXPECT_TRUE(flag.set("10").ok());
  EXPECT_EQ(target, 10);
  EXPECT_FALSE(flag.set("0").ok());
  EXPECT_FALSE(flag.set("11").ok());
  EXPECT_FALSE(SizeFlag("--n", "N", "", &target).set("3GiB").ok());
  EXPECT_EQ(target, 10);
}

}  // namespace
}  // namespace quire::cli
