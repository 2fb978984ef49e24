// Many tokens, many streams, readers that do not read and clients that vanish.
#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/server/server_fixture.h"
#include "tests/server/tcp_proxy.h"

namespace quire {
namespace {

// Room for tests that need millions of tokens.
ModelInfo HugeModel() {
  ModelInfo info = FakeModelInfo();
  info.max_model_len = 100'000'000;
  info.num_blocks = 100'000'000 / info.block_size;
  return info;
}

class FlowTest : public ServerFixture {
 protected:
  void StartHuge(ServerLimits limits = {}) {
    Open(limits);
    Load(HugeModel());
  }
  // `count` tokens that spell the alphabet.
  static std::vector<int32_t> Letters(int count) {
    std::vector<int32_t> ids;
    for (int i = 0; i < count; ++i) ids.push_back('a' + i % 26);
    return ids;
  }
};

TEST_F(FlowTest, DeltasOfASlowReaderAreMergedAndNothingIsLost) {
  StartHuge();
  constexpr int kNumTokens = 300'000;
  TestClient reader(server_->port(), /*small_windows=*/true);
  auto stream = reader.Generate(TextRequest("x"));
  const SequenceId id = engine_->WaitForSubmission().id;
  engine_->Accept(id);
  const std::vector<int32_t> ids = Letters(kNumTokens);
  for (int start = 0; start < kNumTokens; start += 100) {
    engine_->Tokens(id, {ids.begin() + start, ids.begin() + start + 100});
  }
  engine_->Finish(id, EndReason::kLength);
  engine_->WaitUntilTold();  // nothing was read until here
  const Answer answer = TestClient::ReadAll(*stream);
  EXPECT_TRUE(answer.status.ok()) << answer.Shape();
  const std::vector<uint32_t> told = answer.token_ids();
  ASSERT_EQ(told.size(), ids.size());
  EXPECT_TRUE(std::equal(told.begin(), told.end(), ids.begin()));
  EXPECT_EQ(answer.text(), std::string(ids.begin(), ids.end()));
  EXPECT_LT(answer.events.size(), ids.size() / 10) << "merged";
}

TEST_F(FlowTest, NoMessageExceedsItsLimit) {
  StartHuge();
  v1::GenerateRequest request = TextRequest("x");
  request.set_stream(false);
  auto stream = client_->Generate(request);
  const SequenceId id = engine_->WaitForSubmission().id;
  engine_->Accept(id);
  constexpr int kNumTokens = 1'500'000;
  engine_->Tokens(id, Letters(kNumTokens));
  engine_->Finish(id, EndReason::kLength);
  const Answer answer = TestClient::ReadAll(*stream);  // checks each message
  EXPECT_TRUE(answer.status.ok()) << answer.status.message;
  EXPECT_EQ(answer.token_ids().size(), static_cast<size_t>(kNumTokens));
  EXPECT_EQ(answer.text().size(), static_cast<size_t>(kNumTokens));

  v1::GenerateRequest long_prompt;
  for (int i = 0; i < 1'200'000; ++i) long_prompt.mutable_token_ids()->add_ids(200 + i % 50);
  long_prompt.set_return_prompt_token_ids(true);
  stream = client_->Generate(long_prompt);
  const SequenceId second = engine_->WaitForSubmission().id;
  engine_->Accept(second);
  engine_->Finish(second, EndReason::kLength);
  const Answer echoed = TestClient::ReadAll(*stream);
  uint32_t offset = 0;
  for (const auto& event : echoed.events) {
    if (!event.has_prompt()) continue;
    EXPECT_EQ(event.prompt().token_offset(), offset);
    offset += static_cast<uint32_t>(event.prompt().token_ids_size());
  }
  EXPECT_EQ(offset, 1'200'000u);
}

TEST_F(FlowTest, AReaderThatDoesNotReadIsEndedAsSlow) {
  ServerLimits limits;
  limits.slow_reader_timeout_ms = 5'000;  // also for what lies before the status
  StartHuge(limits);
  TestClient reader(server_->port(), /*small_windows=*/true);
  auto stream = reader.Generate(TextRequest("x"));
  const SequenceId id = engine_->WaitForSubmission().id;
  engine_->Accept(id);
  engine_->Tokens(id, Letters(400'000));
  EXPECT_EQ(engine_->WaitForEnd(id), EndReason::kSlowConsumer);
  const Answer answer = TestClient::ReadAll(*stream);  // too late, but the status is there
  EXPECT_EQ(answer.status.Summary(), "RESOURCE_EXHAUSTED/SLOW_CONSUMER");
  EXPECT_NE(answer.status.info.metadata().at("completion_tokens"), "0");
}

TEST_F(FlowTest, AReaderThatNeverReadsIsCutOff) {
  ServerLimits limits;
  limits.slow_reader_timeout_ms = 50;
  StartHuge(limits);
  TestClient reader(server_->port(), /*small_windows=*/true);
  auto stream = reader.Generate(TextRequest("x"));
  const SequenceId id = engine_->WaitForSubmission().id;
  engine_->Accept(id);
  engine_->Tokens(id, Letters(2'000'000));
  EXPECT_EQ(engine_->WaitForEnd(id), EndReason::kSlowConsumer);
  // The stream is given up without a read: a drain with patience finds nothing to wait for.
  const Server::DrainResult result = server_->Drain({.timeout_ms = 60'000});
  EXPECT_EQ(result.ended, 0);
}

TEST_F(FlowTest, ABrokenConnectionCancelsItsStreams) {
  StartServer();
  TcpProxy proxy(server_->port());
  TestClient client(proxy.port());
  std::vector<std::unique_ptr<ClientStream>> streams;
  std::vector<SequenceId> ids;
  for (int i = 0; i < 3; ++i) {
    streams.push_back(client.Generate(TextRequest("x")));
    ids.push_back(engine_->WaitForSubmission().id);
    engine_->Accept(ids.back());
    EXPECT_TRUE(Next(*streams.back()).has_accepted());
  }
  proxy.Break();
  for (const SequenceId id : ids) EXPECT_EQ(engine_->WaitForEnd(id), EndReason::kCancelled);
  for (auto& stream : streams) EXPECT_EQ(TestClient::ReadAll(*stream).Shape(), "UNAVAILABLE");
}

TEST_F(FlowTest, TimeLimitsEndWellAndDeadlinesWithDetails) {
  StartHuge();
  engine_->Generate([](const Request&, int32_t) { return 'a'; });
  v1::GenerateRequest request = TextRequest("x");
  request.mutable_params()->set_max_time_ms(30);
  Answer answer = Ask(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.message;
  EXPECT_EQ(answer.events[answer.events.size() - 2].choice_finished().finish_reason(),
            v1::FINISH_REASON_TIME_LIMIT);

  CallOptions options;
  options.timeout_ms = 300;
  answer = Ask(TextRequest("x"), options);
  EXPECT_EQ(answer.status.code, 4);
  engine_->WaitUntilIdle();
}

TEST_F(FlowTest, TooManyOpenStreamsAreRefusedBeforeAnyWork) {
  ServerLimits limits;
  limits.max_concurrent_requests = 2;
  StartServer(limits);
  TestClient other(server_->port());  // the limit is the server's, not a connection's
  auto first = client_->Generate(TextRequest("x"));
  const SequenceId id = engine_->WaitForSubmission().id;
  auto second = other.Generate(TextRequest("x"));
  engine_->WaitForSubmission();
  TestClient third(server_->port());
  const Answer refused = third.GenerateAll(TextRequest("x"));
  EXPECT_EQ(refused.Shape(), "RESOURCE_EXHAUSTED/QUEUE_FULL");
  EXPECT_EQ(refused.status.info.metadata().at("limit"), "2");
  EXPECT_EQ(refused.status.retry_pushback_ms, "1000");
  engine_->Accept(id);
  engine_->Finish(id, EndReason::kLength);
  EXPECT_TRUE(TestClient::ReadAll(*first).status.ok());
}

// One client's part of the storm: asks, leaves when its number says so, and tells how it ended.
std::string OneOfTheStorm(TestClient& client, std::mt19937& random, int number) {
  v1::GenerateRequest request;
  request.set_text(std::string(1 + random() % 200, 'p'));
  request.set_request_id(absl::StrCat("storm-", number));
  const uint32_t max_tokens = 1 + random() % 300;
  request.mutable_params()->set_max_tokens(max_tokens);
  request.set_stream(random() % 4 != 0);
  const int leave_after = random() % 2 == 0 ? static_cast<int>(random() % 20) : 1 << 30;
  const bool abort = random() % 8 == 0;
  auto stream = client.Generate(request);
  Answer answer;
  v1::GenerateResponse event;
  int num_read = 0;
  while (stream->ReadMessage(&event)) {
    answer.events.push_back(event);
    if (++num_read == leave_after) stream->Cancel();
    if (abort && num_read == 1) {
      v1::AbortRequest abort_request;
      abort_request.add_request_ids(request.request_id());
      v1::AbortResponse response;
      EXPECT_TRUE(client.Call("/quire.v1.GenerationService/Abort", abort_request, &response).ok());
    }
  }
  answer.status = stream->Finish();
  if (!answer.status.ok()) {
    EXPECT_EQ(answer.status.code, 1) << answer.status.message;  // CANCELLED, by us
    EXPECT_LE(leave_after, num_read);
    return "left";
  }
  // Each ends exactly once, and completely.
  EXPECT_TRUE(answer.events.back().has_finished()) << answer.Shape();
  const auto& choice = answer.events[answer.events.size() - 2].choice_finished();
  EXPECT_EQ(choice.completion_tokens(), answer.token_ids().size());
  EXPECT_EQ(answer.text(), std::string(answer.token_ids().size(), 'a'));
  if (choice.finish_reason() == v1::FINISH_REASON_ABORTED) return "aborted";
  EXPECT_EQ(choice.completion_tokens(), max_tokens);
  return "finished";
}

TEST_F(FlowTest, AStormOfStreamsEndsEachExactlyOnce) {
  StartServer();
  engine_->Generate([](const Request&, int32_t) { return 'a'; });
  constexpr uint32_t kSeed = 20260;
  constexpr int kNumThreads = 8;
  constexpr int kNumRounds = 50;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::atomic<int> num_finished = 0;
  std::atomic<int> num_left = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kNumThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(kSeed + static_cast<uint32_t>(t));
      TestClient client(server_->port());
      for (int round = 0; round < kNumRounds; ++round) {
        const std::string end = OneOfTheStorm(client, random, t * kNumRounds + round);
        if (end == "finished") num_finished.fetch_add(1);
        if (end == "left") num_left.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(num_finished.load(), 50);
  EXPECT_GT(num_left.load(), 20);
  const Server::DrainResult result = server_->Drain({.timeout_ms = 30'000});
  EXPECT_EQ(result.ended, 0);
}

TEST_F(FlowTest, HundredsOfStreamsAtOnceWithLeaversAllEnd) {
  StartServer();
  engine_->Generate([](const Request&, int32_t) { return 'a'; });
  std::mt19937 random(7);
  std::vector<std::unique_ptr<ClientStream>> streams;
  std::vector<uint32_t> max_tokens;
  std::set<size_t> leavers;
  for (size_t i = 0; i < 300; ++i) {
    v1::GenerateRequest request = TextRequest("p");
    max_tokens.push_back(1 + random() % 500);
    request.mutable_params()->set_max_tokens(max_tokens.back());
    streams.push_back(client_->Generate(request));
    if (random() % 5 == 0) {
      leavers.insert(i);
      streams.back()->Cancel();
    }
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    const Answer answer = TestClient::ReadAll(*streams[i]);
    if (leavers.contains(i) && !answer.status.ok()) continue;
    EXPECT_TRUE(answer.status.ok()) << answer.status.message;
    EXPECT_EQ(answer.token_ids().size(), max_tokens[i]);
  }
  EXPECT_EQ(server_->Drain({.timeout_ms = 30'000}).ended, 0);
}

}  // namespace
}  // namespace quire
