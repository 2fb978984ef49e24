#include "server/cli/json_lines.h"

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include <gtest/gtest.h>

#include "server/cli/json_fields.h"

namespace quire::cli {
namespace {

TEST(JsonLines, ResultsKeepTheOrderOfTheirLines) {
  constexpr int kLines = 40;
  std::string text;
  for (int i = 0; i < kLines; ++i) absl::StrAppend(&text, i, "\n");
  std::istringstream in(text);
  std::ostringstream out;
  // A line waits until the one after it has been answered, but for the last of each eight.
  absl::Mutex mutex;
  std::vector<bool> answered(kLines + 1, false);
  AnswerLines(in, out, /*concurrency=*/8, [&](const Json& line) {
    const int i = line.get<int>();
    absl::MutexLock lock(&mutex);
    if (i % 8 != 7) {
      auto next_is_there = [&] { return static_cast<bool>(answered[i + 1]); };
      mutex.Await(absl::Condition(&next_is_there));
    }
    answered[i] = true;
    return Json{{"line", i}};
  });
  std::string expected;
  for (int i = 0; i < kLines; ++i) absl::StrAppend(&expected, "{\"line\":", i, "}\n");
  EXPECT_EQ(out.str(), expected);
}

// Counts what is written through.
class CountingBuffer : public std::stringbuf {
 public:
  int num_syncs = 0;

 private:
  int sync() override {
    ++num_syncs;
    return std::stringbuf::sync();
  }
};

TEST(JsonLines, ReadingDoesNotFlushWhatIsBeingWritten) {
  std::istringstream in("1\n2\n3\n");
  CountingBuffer buffer;
  std::ostream out(&buffer);
  in.tie(&out);  // as std::cin is to std::cout
  AnswerLines(in, out, /*concurrency=*/1, [](const Json& line) { return line; });
  EXPECT_EQ(buffer.num_syncs, 3) << "once a line";
}

TEST(JsonLines, AllThatAreAllowedAreInWorkAtOnce) {
  constexpr int kConcurrency = 6;
  std::istringstream in("1\n2\n3\n4\n5\n6\n");
  std::ostringstream out;
  absl::BlockingCounter waiting(kConcurrency);
  absl::Mutex mutex;
  int inside = 0;
  const LineCounts counts = AnswerLines(in, out, kConcurrency, [&](const Json&) {
    absl::MutexLock lock(&mutex);
    ++inside;
    auto all_are_inside = [&] { return inside == kConcurrency; };
    mutex.Await(absl::Condition(&all_are_inside));
    return Json::object();
  });
  EXPECT_EQ(counts.answered, kConcurrency);
  EXPECT_EQ(counts.failed, 0);
}

TEST(JsonLines, BlankLinesAreNotLinesAndOthersMustBeJson) {
  std::istringstream in("\n1\n \t\r\n{\n2");
  std::ostringstream out;
  const LineCounts counts = AnswerLines(in, out, 1, [](const Json& line) {
    return Json{{"line", line}};
  });
  EXPECT_EQ(counts.answered, 3);
  EXPECT_EQ(counts.failed, 1);
  EXPECT_NE(out.str().find("{\"line\":1}\n{\"error\":{\"code\":\"INVALID_ARGUMENT\""),
            std::string::npos)
      << out.str();
}

// `depth` lists within each other.
std::string Nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(ParseJson, RefusesWhatIsNestedTooDeeply) {
  ASSERT_TRUE(ParseJson(Nested(128)).ok());
  EXPECT_EQ(OneLine(*ParseJson(Nested(128))), Nested(128));
  for (const std::string& text :
       {Nested(129), Nested(1'000'000), std::string(100'000, '['),
        absl::StrCat("{\"a\":", Nested(128), "}"), absl::StrCat("[", Nested(129), ", 1]")}) {
    EXPECT_EQ(ParseJson(text).status().message(), "JSON nested deeper than 128");
  }
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "[1,]", "\"\xff\"", "1 2"}) {
    EXPECT_EQ(ParseJson(text).status().message(), "not JSON in UTF-8") << text;
  }
  EXPECT_TRUE(ParseJson("null")->is_null());
}

TEST(FieldReader, ObjectsKeepTheOrderOfTheirKeys) {
  const Json line = Json::parse(R"({"z": {"b": 1, "a": [2]}, "y": null})");
  FieldReader fields(line);
  EXPECT_EQ(OneLine(*fields.Take("z")), R"({"b":1,"a":[2]})");
  EXPECT_EQ(fields.Take("y"), nullptr);
  EXPECT_FALSE(fields.Finish().has_value());
}

TEST(FieldReader, TheFirstErrorIsKept) {
  const Json line = Json::parse(R"({"a": 1, "b": [1, 2147483648], "c": "text"})");
  FieldReader fields(line);
  bool flag = true;
  std::vector<int32_t> ids = {9};
  fields.Read("b", &ids);
  fields.Read("a", &flag);
  ASSERT_TRUE(fields.Finish().has_value());
  EXPECT_EQ(fields.Finish()->message, "b: expected a token id, found 2147483648");
  EXPECT_TRUE(flag);
  EXPECT_EQ(ids, std::vector<int32_t>({9}));
}

}  // namespace
}  // namespace quire::cli
