#include "server/cli/log_line.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "server/log_fields.h"

namespace quire::cli {
namespace {

nlohmann::json Parsed(const std::string& line) {
  return nlohmann::json::parse(absl::StrCat("{", JsonOfLine(line), "}"));
}

TEST(LogLineTest, FieldsAreKeysInJsonAndPairsInText) {
  LogFields line("request");
  line.Add("method", "Generate").Add("tokens", 12).AddMs("ttft_ms", 12'500);
  EXPECT_EQ(TextOfLine(line.line()), "request method=Generate tokens=12 ttft_ms=12.500");
  EXPECT_EQ(JsonOfLine(line.line()),
            R"("message":"request","method":"Generate","tokens":12,"ttft_ms":12.500)");
}

TEST(LogLineTest, WhateverATextHoldsItStaysOneValue) {
  const std::string nasty = "a b=\"c\"\n\x1fkey=1\x1e{}\\\xff";
  LogFields line("request");
  line.Add("peer", nasty).Add("empty", "").Add("last", 1);
  const nlohmann::json parsed = Parsed(line.line());
  ASSERT_EQ(parsed.size(), 4U) << parsed;
  EXPECT_EQ(parsed["empty"], "");
  EXPECT_EQ(parsed["last"], 1);
  EXPECT_EQ(TextOfLine(line.line()),
            R"(request peer="a b=\"c\"\u000a\u001fkey=1\u001e{}\\\u00ff" empty="" last=1)");
}

TEST(LogLineTest, ALineWithoutFieldsIsItsMessage) {
  for (const std::string line : {"serving x: {} 100%", "", "grpc: \x1fkey=1", "two\nlines"}) {
    EXPECT_EQ(Parsed(line).size(), 1U);
    EXPECT_EQ(Parsed(line)["message"], line);
  }
  EXPECT_EQ(TextOfLine("two\nlines"), "two lines");
  EXPECT_EQ(Parsed("not \xff UTF-8")["message"], "not \xEF\xBF\xBD UTF-8");
}

TEST(LogLineTest, NothingReachesATerminalThatItWouldObey) {
  EXPECT_EQ(TextOfLine("a\x1b[2J\tb\x7f\x80 \xc2\x9bm"), R"(a\x1b[2J\x09b\x7f\x80 \xc2\x9bm)");
  EXPECT_EQ(TextOfLine(std::string("nul\0", 4)), R"(nul\x00)");
  const std::string words = "\xc2\xa0 \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80";  // of 2, 3, 4 bytes
  EXPECT_EQ(TextOfLine(words), words);
  EXPECT_EQ(TextOfLine("cut \xe2\x82"), R"(cut \xe2\x82)");
  EXPECT_EQ(TextOfLine("\xe2\x82x \xc0\x80 \xff"), R"(\xe2\x82x \xc0\x80 \xff)");
}

}  // namespace
}  // namespace quire::cli
