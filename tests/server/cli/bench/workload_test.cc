#include "server/cli/bench/workload.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::cli::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int32_t kVocabSize = 1000;

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

std::vector<BenchRequest> RequestsOf(const WorkloadOptions& options, int point, int64_t count) {
  const auto workload = Workload::Open(options);
  EXPECT_TRUE(workload.ok()) << workload.status();
  auto requests = workload->Requests(point, count, kVocabSize);
  EXPECT_TRUE(requests.ok()) << requests.status();
  return *std::move(requests);
}

int64_t NumEqualAtStart(const BenchRequest& a, const BenchRequest& b) {
  const auto [end, other] = std::mismatch(a.prompt_ids.begin(), a.prompt_ids.end(),
                                          b.prompt_ids.begin(), b.prompt_ids.end());
  return end - a.prompt_ids.begin();
}

TEST(Trace, LinesMayHaveMoreThanIsRead) {
  const auto trace = ParseTrace(
      "{\"timestamp\": 43, \"input_length\": 2000, \"output_length\": 142}\n\n"
      "{\"input_length\": 600, \"output_length\": 1, \"hash_ids\": [7, 9]}\n",
      "t");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->size(), 2u);
  EXPECT_EQ((*trace)[0].prompt_tokens, 2000);
  EXPECT_EQ((*trace)[0].new_tokens, 142);
  EXPECT_THAT((*trace)[0].hash_ids, IsEmpty());
  EXPECT_THAT((*trace)[1].hash_ids, ElementsAre(7, 9));
}

TEST(Trace, WhatIsWrongIsNamedWithItsLine) {
  const std::string good = "{\"input_length\": 1, \"output_length\": 1}\n";
  const std::pair<const char*, const char*> cases[] = {
      {"{\"input_length\": 1}", "t:2: output_length must be there"},
      {"{\"input_length\": 0, \"output_length\": 1}", "t:2: input_length must be"},
      {"{\"input_length\": 1.5, \"output_length\": 1}", "t:2: input_length must be"},
      {"{\"input_length\": 1e30, \"output_length\": 1}", "t:2: input_length must be"},
      {"{\"input_length\": 18446744073709551615, \"output_length\": 1}", "t:2: input_length"},
      {"{\"input_length\": 1, \"output_length\": 1, \"hash_ids\": [-1]}", "t:2: hash_ids must be"},
      {"{\"input_length\": 1, \"output_length\": 1, \"hash_ids\": 3}", "t:2: hash_ids must be"},
      {"[1]", "t:2: not a JSON object"},
      {"nonsense", "t:2: not JSON"},
  };
  for (const auto& [line, message] : cases) {
    EXPECT_THAT(ParseTrace(good + line, "t").status().message(), HasSubstr(message)) << line;
  }
  EXPECT_THAT(ParseTrace("\n", "t").status().message(), HasSubstr("t: has no lines"));
}

TEST(Prompts, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_THAT(ParsePrompts("{\"ids\": []}", "p").status().message(), HasSubstr("p:1: ids must be"));
  EXPECT_THAT(ParsePrompts("{}", "p").status().message(), HasSubstr("p:1: ids must be there"));
  EXPECT_THAT(ParsePrompts("{\"ids\": [1], \"max_tokens\": 0}", "p").status().message(),
              HasSubstr("p:1: max_tokens must be"));
  EXPECT_THAT(ParsePrompts("{\"ids\": [3000000000]}", "p").status().message(),
              HasSubstr("p:1: ids must be"));
}

TEST(Workload, PromptsHaveTheirLengthsAndTheSeedDecidesTheirTokens) {
  WorkloadOptions options{.prompt_tokens = 50, .new_tokens = 7};
  const auto requests = RequestsOf(options, 0, 20);
  ASSERT_EQ(requests.size(), 20u);
  for (const BenchRequest& request : requests) {
    EXPECT_EQ(request.prompt_ids.size(), 50u);
    EXPECT_EQ(request.new_tokens, 7);
    for (const int32_t id : request.prompt_ids) EXPECT_TRUE(id >= 0 && id < kVocabSize);
  }
  EXPECT_EQ(requests[3].prompt_ids, RequestsOf(options, 0, 4)[3].prompt_ids);
  EXPECT_NE(requests[3].prompt_ids, requests[4].prompt_ids);
  EXPECT_NE(requests[3].prompt_ids, RequestsOf(options, 1, 4)[3].prompt_ids);
  options.seed = 2;
  EXPECT_NE(requests[3].prompt_ids, RequestsOf(options, 0, 4)[3].prompt_ids);
}

TEST(Workload, SharedTokensAreThoseOfTheirPointAndOfItsPriming) {
  const WorkloadOptions options{.prompt_tokens = 60, .new_tokens = 1, .shared_tokens = 40};
  const auto requests = RequestsOf(options, 2, 2);
  EXPECT_EQ(NumEqualAtStart(requests[0], requests[1]), 40);
  const BenchRequest priming = Workload::Open(options)->Priming(2, kVocabSize);
  EXPECT_EQ(priming.prompt_ids.size(), 40u);
  EXPECT_EQ(NumEqualAtStart(priming, requests[0]), 40);
  EXPECT_LT(NumEqualAtStart(RequestsOf(options, 3, 1)[0], requests[0]), 40);
}

TEST(Workload, EqualHashesOfATraceAreEqualTokens) {
  const std::string path =
      WriteFile("trace.jsonl",
                "{\"input_length\": 1100, \"output_length\": 3, \"hash_ids\": [5, 6, 7]}\n"
                "{\"input_length\": 1300, \"output_length\": 4, \"hash_ids\": [5, 6, 8]}\n"
                "{\"input_length\": 520, \"output_length\": 5}\n");
  const auto requests = RequestsOf({.trace_file = path}, 0, 3);
  EXPECT_EQ(requests[0].prompt_ids.size(), 1100u);
  EXPECT_EQ(requests[1].prompt_ids.size(), 1300u);
  EXPECT_EQ(requests[2].prompt_ids.size(), 520u);
  EXPECT_EQ(NumEqualAtStart(requests[0], requests[1]), 1024);
  EXPECT_EQ(requests[1].new_tokens, 4);
}

TEST(Workload, ThatCannotBeHadSaysWhy) {
  const std::string path = WriteFile("prompts.jsonl", "{\"ids\": [1, 1000]}\n");
  const auto message_of = [](const WorkloadOptions& options, int64_t count) {
    const auto workload = Workload::Open(options);
    if (!workload.ok()) return std::string(workload.status().message());
    return std::string(workload->Requests(0, count, kVocabSize).status().message());
  };
  EXPECT_THAT(message_of({.prompts_file = path}, 1), HasSubstr("has the token 1000"));
  EXPECT_THAT(message_of({.prompts_file = path}, 2), HasSubstr("has 1 lines"));
  EXPECT_THAT(message_of({.trace_file = path, .prompts_file = path}, 1), HasSubstr("not both"));
  EXPECT_THAT(message_of({.shared_tokens = 1, .trace_file = path}, 1), HasSubstr("--trace"));
  EXPECT_THAT(message_of({.prompt_tokens = 8, .shared_tokens = 8}, 1), HasSubstr("larger"));
  EXPECT_THAT(message_of({.prompt_tokens = 1 << 20}, 1000), HasSubstr("--requests"));
  EXPECT_THAT(message_of({.trace_file = "/nowhere"}, 1), HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace quire::cli::bench
