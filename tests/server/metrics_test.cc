// What /metrics and the probes say while a server lives, over HTTP, beside what clients see.
#include "server/metrics.h"

#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

#include "quire/v1/tokenizer.pb.h"
#include "tests/server/http_get.h"
#include "tests/server/server_fixture.h"
#include "tests/testing/event.h"

namespace quire {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class MetricsTest : public ServerFixture {
 protected:
  void OpenWithMetrics(ServerLimits limits = {}) {
    ServerConfig config;
    config.listen = "127.0.0.1:0";
    config.metrics_listen = "127.0.0.1:0";
    config.limits = limits;
    config.num_dropped_log_lines = [] { return int64_t{7}; };
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<TestClient>(server_->port());
    const std::string& address = server_->metrics_address();
    ASSERT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &http_port_)) << address;
  }
  double Value(const std::string& series) {
    return ValueOf(HttpGet(http_port_, "/metrics").body, series);
  }
  double Rejections(const std::string& reason) {
    return Value(absl::StrCat("quire_rejections_total{reason=\"", reason, "\"}"));
  }
  double Failures(const std::string& reason) {
    return Value(absl::StrCat("quire_request_failures_total{reason=\"", reason, "\"}"));
  }
  double OfModel(const std::string& name) {
    return Value(absl::StrCat(name, "{model_name=\"Fake-256\"}"));
  }
  double Successes(const std::string& reason) {
    return Value(absl::StrCat("vllm:request_success_total{model_name=\"Fake-256\",",
                              "finished_reason=\"", reason, "\"}"));
  }
  std::string Probe(const std::string& path) {
    const HttpReply reply = HttpGet(http_port_, path);
    return absl::StrCat(reply.head.substr(9, 3), " ", reply.body);
  }

  // Asks again as long as the answer is this one.
  std::string ProbeUntilNot(const std::string& path, const std::string& answer) {
    std::string probe = answer;
    for (int i = 0; i < 100'000 && probe == answer; ++i) probe = Probe(path);
    return probe;
  }

  int http_port_ = 0;
};

TEST_F(MetricsTest, LinesThatTheLogDroppedAreToldWhileLoadingToo) {
  OpenWithMetrics();
  EXPECT_EQ(Value("quire_log_lines_dropped_total"), 7);
}

TEST_F(MetricsTest, AnEndWithOkIsCountedBeforeTheClientHearsOfIt) {
  OpenWithMetrics();
  Load();
  auto stream = client_->Generate(TextRequest("four"));
  const SequenceId id = engine_->WaitForSubmission().id;
  engine_->Accept(id, 0, 2);
  engine_->Tokens(id, {'a', 'b', 'c'});
  engine_->Finish(id, EndReason::kLength);
  const Answer answer = TestClient::ReadAll(*stream);
  ASSERT_TRUE(answer.status.ok()) << answer.Shape();
  const v1::Finished& finished = answer.events.back().finished();
  const std::string scrape = HttpGet(http_port_, "/metrics").body;
  const std::string label = "{model_name=\"Fake-256\"}";
  EXPECT_EQ(Successes("length"), 1);
  EXPECT_EQ(ValueOf(scrape, "vllm:prompt_tokens_total" + label), finished.usage().prompt_tokens());
  EXPECT_EQ(ValueOf(scrape, "quire_cached_tokens_total"), finished.usage().cached_tokens());
  EXPECT_EQ(ValueOf(scrape, "vllm:generation_tokens_total" + label), 3);
  EXPECT_EQ(ValueOf(scrape, "vllm:request_generation_tokens_sum" + label), 3);
  EXPECT_EQ(ValueOf(scrape, "vllm:time_to_first_token_seconds_count" + label), 1);
  EXPECT_NEAR(ValueOf(scrape, "vllm:time_to_first_token_seconds_sum" + label),
              finished.timings().ttft_ms() / 1000, 1e-9);
  EXPECT_EQ(ValueOf(scrape, "vllm:inter_token_latency_seconds_count" + label), 2);
  EXPECT_NEAR(ValueOf(scrape, "vllm:e2e_request_latency_seconds_sum" + label),
              finished.timings().total_ms() / 1000, 1e-9);
  EXPECT_NEAR(ValueOf(scrape, "vllm:request_queue_time_seconds_sum" + label),
              finished.timings().queued_ms() / 1000, 1e-9);
}

TEST_F(MetricsTest, TokensAfterAStopStringAreCountedNowhere) {
  OpenWithMetrics();
  Load();
  v1::GenerateRequest request = TextRequest("x");
  request.mutable_params()->add_stop("b");
  auto stream = client_->Generate(request);
  const SequenceId id = engine_->WaitForSubmission().id;
  engine_->Accept(id);
  engine_->Tokens(id, {'a', 'b', 'c', 'd'});
  EXPECT_EQ(engine_->WaitForEnd(id), EndReason::kStop);
  const Answer answer = TestClient::ReadAll(*stream);
  ASSERT_TRUE(answer.status.ok()) << answer.Shape();
  EXPECT_EQ(answer.events.back().finished().usage().completion_tokens(), 2U);
  EXPECT_EQ(OfModel("vllm:generation_tokens_total"), 2);
  EXPECT_EQ(OfModel("vllm:inter_token_latency_seconds_count"), 1);
  EXPECT_EQ(Successes("stop"), 1);
}

TEST_F(MetricsTest, ACancelledRequestCountsWhatItsStreamWasGiven) {
  OpenWithMetrics();
  Load();
  auto stream = client_->Generate(TextRequest("four"));
  const SequenceId id = engine_->WaitForSubmission().id;
  engine_->Accept(id);
  engine_->Tokens(id, {'a'});
  EXPECT_TRUE(Next(*stream).has_accepted());
  EXPECT_TRUE(Next(*stream).has_delta());
  EXPECT_EQ(OfModel("vllm:generation_tokens_total"), 1);
  EXPECT_EQ(OfModel("vllm:prompt_tokens_total"), 4) << "counted with the first token";
  stream->Cancel();
  EXPECT_EQ(engine_->WaitForEnd(id), EndReason::kCancelled);
  double failures = 0;
  for (int i = 0; i < 100'000 && failures == 0; ++i) failures = Failures("CANCELLED");
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(OfModel("vllm:generation_tokens_total"), 1);
  EXPECT_EQ(OfModel("vllm:prompt_tokens_total"), 4);
  EXPECT_EQ(OfModel("vllm:e2e_request_latency_seconds_count"), 0);
  EXPECT_EQ(OfModel("vllm:request_queue_time_seconds_count"), 1);
}

TEST_F(MetricsTest, EveryRefusalCountsByItsReason) {
  OpenWithMetrics();
  EXPECT_EQ(Ask(TextRequest("x")).Shape(), "UNAVAILABLE/MODEL_LOADING");
  EXPECT_EQ(Rejections("MODEL_LOADING"), 1);
  Load();
  v1::GenerateRequest wrong = TextRequest("x");
  wrong.mutable_params()->set_top_p(7);
  EXPECT_EQ(Ask(wrong).Shape(), "INVALID_ARGUMENT/INVALID_FIELD");
  EXPECT_EQ(Rejections("INVALID_FIELD"), 1);
  v1::TokenizeResponse tokens;
  EXPECT_EQ(client_->Call("/quire.v1.TokenizerService/Tokenize", wrong, &tokens).Summary(),
            "INVALID_ARGUMENT/UNKNOWN_FIELD");
  EXPECT_EQ(Rejections("UNKNOWN_FIELD"), 1);
  auto refused = client_->Generate(TextRequest("x"));
  engine_->Refuse(engine_->WaitForSubmission().id,
                  absl::ResourceExhaustedError("QUEUE_FULL: by the engine"));
  EXPECT_EQ(TestClient::ReadAll(*refused).Shape(), "RESOURCE_EXHAUSTED/QUEUE_FULL");
  EXPECT_EQ(Rejections("QUEUE_FULL"), 1);
  engine_->FailSubmits(absl::ResourceExhaustedError("QUEUE_FULL: the inbox"));
  EXPECT_EQ(Ask(TextRequest("x")).Shape(), "RESOURCE_EXHAUSTED/QUEUE_FULL");
  EXPECT_EQ(Rejections("QUEUE_FULL"), 2);
  EXPECT_EQ(Rejections("other"), 0);
}

TEST_F(MetricsTest, AFailureAfterAcceptanceIsNoRejection) {
  OpenWithMetrics();
  Load();
  auto stream = client_->Generate(TextRequest("x"));
  const SequenceId id = engine_->WaitForSubmission().id;
  engine_->Accept(id);
  engine_->Tokens(id, {'a', 'b'});
  engine_->Finish(id, EndReason::kNumericalFault);
  const Answer answer = TestClient::ReadAll(*stream);
  EXPECT_EQ(answer.status.Summary(), "INTERNAL/NUMERICAL_FAULT");
  EXPECT_EQ(Failures("NUMERICAL_FAULT"), 1);
  EXPECT_EQ(Rejections("NUMERICAL_FAULT"), 0);
  EXPECT_EQ(OfModel("vllm:generation_tokens_total"), 2);
  EXPECT_EQ(answer.status.info.metadata().at("completion_tokens"), "2");
}

TEST(MetricsLabelTest, AReasonThatNobodyKnowsIsOther) {
  Metrics metrics;
  metrics.OnRejected("a client could write anything here");
  const std::string scrape = MetricsText(metrics.Collect());
  EXPECT_EQ(ValueOf(scrape, "quire_rejections_total{reason=\"other\"}"), 1);
  EXPECT_THAT(scrape, testing::Not(HasSubstr("anything")));
}

TEST_F(MetricsTest, ProbesFollowTheLifeOfTheServer) {
  OpenWithMetrics();
  EXPECT_EQ(Probe("/livez"), "200 ok\n");
  EXPECT_EQ(Probe("/readyz"), "503 loading\n");
  EXPECT_EQ(Probe("/startupz"), "503 loading\n");
  Load();
  for (const char* path : {"/livez", "/readyz", "/startupz"}) EXPECT_EQ(Probe(path), "200 ok\n");
  auto running = client_->Generate(TextRequest("x"));
  const SequenceId id = engine_->WaitForSubmission().id;
  engine_->Accept(id);
  engine_->Tokens(id, {'a'});
  EXPECT_TRUE(Next(*running).has_accepted());
  std::thread drain([this] { server_->Drain({.timeout_ms = 60'000}); });
  EXPECT_EQ(ProbeUntilNot("/readyz", "200 ok\n"), "503 draining\n");
  EXPECT_EQ(Probe("/livez"), "200 ok\n");
  EXPECT_EQ(Probe("/startupz"), "200 ok\n");
  engine_->Finish(id, EndReason::kLength);
  TestClient::ReadAll(*running);
  drain.join();
}

TEST_F(MetricsTest, OnlyGetAndHeadOfKnownPagesAreAnswered) {
  OpenWithMetrics();
  EXPECT_THAT(HttpGet(http_port_, "/").head, StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(HttpGet(http_port_, "/../../etc/passwd").head, Not(StartsWith("HTTP/1.1 200")));
  const HttpReply post =
      SendHttp(http_port_, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
  EXPECT_THAT(post.head, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(post.head, HasSubstr("Allow: GET, HEAD"));
  const HttpReply head = SendHttp(http_port_, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(head.head, StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(head.body, "");
}

TEST_F(MetricsTest, AnAddressThatCannotBeHadNamesTheFlag) {
  OpenWithMetrics();
  ServerConfig config;
  config.listen = "127.0.0.1:0";
  config.metrics_listen = server_->metrics_address();
  const absl::Status taken = Server::Start(config).status();
  EXPECT_EQ(taken.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(taken.message()), HasSubstr("--metrics-listen"));
  EXPECT_THAT(std::string(taken.message()), HasSubstr(config.metrics_listen));
  for (const char* wrong :
       {"9400", "127.0.0.1", "127.0.0.1:9400s", "127.0.0.1:1,127.0.0.1:2", "[::1]:0"}) {
    config.metrics_listen = wrong;
    const absl::Status status = Server::Start(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--metrics-listen")) << wrong;
  }
}

// Keeps the lines that begin with a word.
class LineSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LineSink(std::string beginning) : beginning_(std::move(beginning)) {}
  Event told;
  std::string line;  // the last one; once told

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string text(message.payload.data(), message.payload.size());
    if (text.rfind(beginning_, 0) != 0) return;
    line = text;
    told.Notify();
  }
  void flush_() override {}
  const std::string beginning_;
};

TEST_F(MetricsTest, ALeakOfBlocksIsToldWithTheStateOfTheScheduler) {
  OpenWithMetrics();
  Load();
  const auto sink = std::make_shared<LineSink>("KV blocks leak");
  spdlog::default_logger()->sinks().push_back(sink);
  EXPECT_EQ(Value("quire_kv_blocks_leaked"), 0);
  engine_->Leak();
  EXPECT_TRUE(sink->told.Wait());
  EXPECT_EQ(Value("quire_kv_blocks_leaked"), 3);
  server_.reset();
  spdlog::default_logger()->sinks().pop_back();
  EXPECT_THAT(sink->line, HasSubstr("fake state"));
}

TEST_F(MetricsTest, WithoutAnAddressNothingListens) {
  StartServer();
  EXPECT_EQ(server_->metrics_address(), "");
}

}  // namespace
}  // namespace quire
