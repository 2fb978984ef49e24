#include "server/stop_strings.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace quire {
namespace {

// "2@1": string 2 begins at byte 1. "-2": nothing ends here, 2 bytes are held.
std::string Shown(const std::optional<StopScan::Match>& match, const StopScan& scan) {
  if (match) return absl::StrCat(match->index, "@", match->begin);
  return absl::StrCat("-", scan.num_held());
}

std::string Feed(StopScan& scan, const std::string& piece, bool may_stop = true) {
  const auto match = scan.Feed(piece, may_stop);
  return Shown(match, scan);
}

TEST(StopStringsTest, HoldsWhatMayBeABeginning) {
  const StopStrings strings(std::vector<std::string>{"abc", "cab"});
  StopScan scan(strings);
  EXPECT_EQ(Feed(scan, "xa"), "-1");
  EXPECT_EQ(Feed(scan, "b"), "-2");
  EXPECT_EQ(Feed(scan, "b"), "-0");
  EXPECT_EQ(Feed(scan, "aca"), "-2");  // of "cab"
  EXPECT_EQ(Feed(scan, "b"), "1@5");
}

TEST(StopStringsTest, TheOneThatBeginsFirstWinsThenTheFirstOfTheList) {
  const StopStrings strings(std::vector<std::string>{"b", "abcd", "abc", "abc"});
  StopScan at_once(strings);
  EXPECT_EQ(Feed(at_once, "xabcd"), "1@1");
  StopScan in_pieces(strings);
  EXPECT_EQ(Feed(in_pieces, "xa"), "-1");
  EXPECT_EQ(Feed(in_pieces, "b"), "0@2") << "the first piece that completes one decides";
  const StopStrings equal(std::vector<std::string>{"ab", "ab"});
  StopScan scan(equal);
  EXPECT_EQ(Feed(scan, "ab"), "0@0");
}

TEST(StopStringsTest, WhatEndsWhereItMayNotStopIsPassedOver) {
  const StopStrings strings(std::vector<std::string>{"aba"});
  StopScan scan(strings);
  EXPECT_EQ(Feed(scan, "aba", /*may_stop=*/false), "-1");
  EXPECT_EQ(Feed(scan, "ba"), "0@2") << "its end begins another one";
}

TEST(StopStringsTest, NoStringsNeverStop) {
  const StopStrings strings(std::vector<std::string>{});
  EXPECT_TRUE(strings.empty());
  StopScan scan(strings);
  EXPECT_EQ(Feed(scan, "anything"), "-0");
}

TEST(StopStringsTest, AgreesWithASearchOfTheWholeText) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  const auto word = [&](size_t most) {
    std::string text;
    for (size_t i = random() % most + 1; i > 0; --i) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> list;
    for (size_t i = random() % 5 + 1; i > 0; --i) list.push_back(word(6));
    const StopStrings strings(list);
    StopScan scan(strings);
    std::string text;
    for (int piece = 0; piece < 6; ++piece) {
      const std::string fed = word(4);
      text += fed;
      std::string expected;
      size_t begin = std::string::npos;
      for (size_t i = 0; i < list.size(); ++i) {
        if (text.find(list[i]) >= begin) continue;
        begin = text.find(list[i]);
        expected = absl::StrCat(i, "@", begin);
      }
      if (expected.empty()) {
        size_t held = 0;
        for (const std::string& string : list) {
          for (size_t n = 1; n < string.size() && n <= text.size(); ++n) {
            const bool begins = text.compare(text.size() - n, n, string, 0, n) == 0;
            if (begins && n > held) held = n;
          }
        }
        expected = absl::StrCat("-", held);
      }
      ASSERT_EQ(Feed(scan, fed), expected)
          << "seed " << kSeed << " round " << round << " text " << text;
      if (begin != std::string::npos) break;
    }
  }
}

}  // namespace
}  // namespace quire
