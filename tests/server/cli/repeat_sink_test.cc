#include "server/cli/repeat_sink.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace quire::cli {
namespace {

using spdlog::level::level_enum;
using testing::ElementsAre;

class LineKeeper final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    lines.emplace_back(message.payload.data(), message.payload.size());
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

  std::vector<std::string> lines;
};

class RepeatSinkTest : public testing::Test {
 protected:
  void Log(level_enum level, const std::string& text) {
    sink_.log(spdlog::details::log_msg(now_, spdlog::source_loc{}, "quire", level, text));
  }
  std::vector<std::string> Take() { return std::exchange(keeper_->lines, {}); }

  std::shared_ptr<LineKeeper> keeper_ = std::make_shared<LineKeeper>();
  RepeatSink sink_{keeper_};
  spdlog::log_clock::time_point now_;
};

TEST_F(RepeatSinkTest, TheFirstIsToldAtOnceAndTheOthersAreCounted) {
  for (int i = 0; i < 1000; ++i) Log(spdlog::level::warn, absl::StrCat("peer :", 40'000 + i));
  EXPECT_THAT(Take(), ElementsAre("peer :40000"));
  now_ += RepeatSink::kWindow;
  Log(spdlog::level::warn, "peer :7");
  EXPECT_THAT(Take(), ElementsAre("repeated 999 more times: peer :40000", "peer :7"));
}

TEST_F(RepeatSinkTest, AnyLineAfterTheWindowTellsTheCount) {
  Log(spdlog::level::err, "broken");
  Log(spdlog::level::err, "broken");
  Take();
  now_ += RepeatSink::kWindow;
  Log(spdlog::level::info, "a request");
  EXPECT_THAT(Take(), ElementsAre("repeated 1 more times: broken", "a request"));
}

TEST_F(RepeatSinkTest, OtherLevelsAndOtherWordsPass) {
  Log(spdlog::level::info, "same");
  Log(spdlog::level::info, "same");
  Log(spdlog::level::warn, "same");
  Log(spdlog::level::err, "same");
  Log(spdlog::level::warn, "other");
  Log(spdlog::level::critical, "gone");
  Log(spdlog::level::critical, "gone");
  EXPECT_THAT(Take(), ElementsAre("same", "same", "same", "same", "other", "gone", "gone"));
}

TEST_F(RepeatSinkTest, AFloodOfDifferentWarningsNeedsNoMoreMemory) {
  Log(spdlog::level::warn, "first");
  Log(spdlog::level::warn, "first");
  for (size_t i = 0; i < 4 * RepeatSink::kMaxKinds; ++i) {
    Log(spdlog::level::warn, std::string(1 + i, 'x'));
  }
  const std::vector<std::string> lines = Take();
  EXPECT_EQ(lines.size(), 4 * RepeatSink::kMaxKinds + 2);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "repeated 1 more times: first"), 1);
}

}  // namespace
}  // namespace quire::cli
