#include "server/cli/queue_sink.h"

#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace quire::cli {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

constexpr milliseconds kPatience{60'000};
constexpr size_t kPipeBytes = 4096;

// A sink whose lines go into a pipe of one page.
class QueueSinkTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    ASSERT_EQ(fcntl(ends_[1], F_SETPIPE_SZ, kPipeBytes), static_cast<int>(kPipeBytes));
  }
  void TearDown() override {
    close(ends_[0]);
    CloseEnd();
  }

  std::unique_ptr<QueueSink> NewSink(const QueueLimits& limits = {}) const {
    auto sink = std::make_unique<QueueSink>(ends_[1], limits);
    sink->set_pattern("%v");
    return sink;
  }
  static void Log(QueueSink& sink, const std::string& text) {
    sink.log(spdlog::details::log_msg("quire", spdlog::level::info, text));
  }
  // So that no write returns before somebody reads.
  void FillPipe() const {
    const std::string page = std::string(kPipeBytes - 1, '.') + "\n";
    ASSERT_EQ(write(ends_[1], page.data(), page.size()), static_cast<ssize_t>(page.size()));
  }
  void CloseEnd() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  // Reads until `sink` has written all; the lines, without those of FillPipe.
  std::vector<std::string> ReadAll(QueueSink& sink) {
    std::string text;
    std::thread reader([&] {
      char buffer[1024];
      ssize_t size = 0;
      while ((size = read(ends_[0], buffer, sizeof(buffer))) > 0) {
        text.append(buffer, static_cast<size_t>(size));
      }
    });
    EXPECT_TRUE(sink.Flush(kPatience));
    CloseEnd();
    reader.join();
    std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    if (!lines.empty() && lines[0][0] == '.') lines.erase(lines.begin());
    return lines;
  }

  int ends_[2] = {-1, -1};
};

// Takes the lines out that tell of others which were dropped; returns how many those were.
int64_t TakeDropped(std::vector<std::string>* lines) {
  int64_t sum = 0;
  std::vector<std::string> others;
  for (const std::string& line : *lines) {
    absl::string_view number = line;
    int64_t count = 0;
    if (absl::ConsumeSuffix(&number, " lines were not written: stderr was not read, or failed")) {
      EXPECT_TRUE(absl::SimpleAtoi(number, &count)) << line;
      sum += count;
    } else {
      others.push_back(line);
    }
  }
  *lines = others;
  return sum;
}

TEST_F(QueueSinkTest, LinesComeInTheirOrder) {
  const auto sink = NewSink();
  for (const char* text : {"one", "two", "three"}) Log(*sink, text);
  EXPECT_THAT(ReadAll(*sink), ElementsAre("one", "two", "three"));
  EXPECT_EQ(sink->num_dropped(), 0);
}

TEST_F(QueueSinkTest, WhatNobodyReadsKeepsNobodyWaitingAndIsCounted) {
  constexpr int kNumLines = 100;
  FillPipe();
  const auto sink = NewSink({.lines = 4});
  for (int i = 0; i < kNumLines; ++i) Log(*sink, absl::StrCat(i));
  EXPECT_FALSE(sink->Flush(milliseconds(1)));
  const int64_t num_dropped = sink->num_dropped();
  // One queue is full, and as much may be in the write that hangs.
  EXPECT_GE(num_dropped, kNumLines - 2 * 4);
  EXPECT_LE(num_dropped, kNumLines - 4);
  std::vector<std::string> lines = ReadAll(*sink);
  EXPECT_EQ(TakeDropped(&lines), num_dropped);
  EXPECT_EQ(static_cast<int64_t>(lines.size()), kNumLines - num_dropped);
  EXPECT_EQ(lines[0], "0");
}

TEST_F(QueueSinkTest, ItsBytesAreBoundedToo) {
  FillPipe();
  const auto sink = NewSink({.bytes = 1000});
  for (int i = 0; i < 100; ++i) Log(*sink, std::string(99, 'x'));
  const int64_t num_dropped = sink->num_dropped();
  EXPECT_GE(num_dropped, 100 - 2 * 10);
  EXPECT_LE(num_dropped, 100 - 10);
  std::vector<std::string> lines = ReadAll(*sink);
  EXPECT_EQ(TakeDropped(&lines), num_dropped);
}

TEST_F(QueueSinkTest, LinesThatFitAfterwardsAreWrittenBehindTheCount) {
  FillPipe();
  const auto sink = NewSink({.lines = 1});
  for (int i = 0; i < 10; ++i) Log(*sink, "early");
  std::string page(kPipeBytes, ' ');
  ASSERT_EQ(read(ends_[0], page.data(), page.size()), static_cast<ssize_t>(kPipeBytes));
  ASSERT_TRUE(sink->Flush(kPatience));
  Log(*sink, "late");
  std::vector<std::string> lines = ReadAll(*sink);
  EXPECT_EQ(lines.back(), "late");
  EXPECT_EQ(TakeDropped(&lines), sink->num_dropped());
  EXPECT_GE(sink->num_dropped(), 8);
}

TEST_F(QueueSinkTest, APipeWhoseReaderIsGoneCountsAndEndsNothing) {
  close(ends_[0]);
  const auto sink = NewSink();
  Log(*sink, "one");
  EXPECT_TRUE(sink->Flush(kPatience));
  EXPECT_EQ(sink->num_dropped(), 1);
  ends_[0] = -1;
}

TEST_F(QueueSinkTest, ItCanGoAwayInAWriteThatHangs) {
  FillPipe();
  auto sink = NewSink();
  Log(*sink, "last");
  sink.reset();
  char page[kPipeBytes];
  ASSERT_EQ(read(ends_[0], page, sizeof(page)), static_cast<ssize_t>(sizeof(page)));
  ASSERT_EQ(read(ends_[0], page, sizeof(page)), 5);
  EXPECT_EQ(std::string(page, 5), "last\n");
}

}  // namespace
}  // namespace quire::cli
