// What a Generate stream says, in which order, and how it ends.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/server/server_fixture.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class GenerationTest : public ServerFixture {
 protected:
  void SetUp() override { StartServer(); }

  // Submits, and answers with all of `token_ids` and this end.
  Answer AskAndGet(const v1::GenerateRequest& request, std::vector<int32_t> token_ids,
                   EndReason reason, int32_t stop_token_id = -1) {
    auto stream = client_->Generate(request);
    const FakeEngine::Submission submission = engine_->WaitForSubmission();
    last_request_ = submission.request;
    engine_->Accept(submission.id);
    engine_->Tokens(submission.id, std::move(token_ids));
    engine_->Finish(submission.id, reason, stop_token_id);
    return TestClient::ReadAll(*stream);
  }
  std::shared_ptr<const Request> last_request_;
};

TEST_F(GenerationTest, TellsAcceptedThenEachTokenThenTheEnd) {
  v1::GenerateRequest request = TextRequest("hey");
  request.set_request_id("my-id");
  auto stream = client_->Generate(request);
  const auto [id, submitted] = engine_->WaitForSubmission();
  EXPECT_EQ(submitted->prompt_token_ids, Bytes("hey"));

  engine_->Accept(id, 3, 2);
  const v1::Accepted accepted = Next(*stream).accepted();
  EXPECT_EQ(accepted.request_id(), "my-id");
  EXPECT_EQ(accepted.model(), "Fake-256");
  EXPECT_EQ(accepted.fingerprint(), "f00d");
  EXPECT_EQ(accepted.prompt_tokens(), 3u);
  EXPECT_EQ(accepted.cached_tokens(), 2u);
  EXPECT_EQ(accepted.queue_position(), 3u);

  engine_->Tokens(id, {'H'});
  v1::Delta delta = Next(*stream).delta();
  EXPECT_EQ(delta.text(), "H");
  EXPECT_EQ(delta.token_offset(), 0u);
  EXPECT_THAT(delta.token_ids(), ElementsAre('H'));
  // Half a character: the id is told, the text waits.
  engine_->Tokens(id, {0xC3});
  delta = Next(*stream).delta();
  EXPECT_EQ(delta.text(), "");
  EXPECT_EQ(delta.token_offset(), 1u);
  EXPECT_THAT(delta.token_ids(), ElementsAre(0xC3));
  engine_->Tokens(id, {0xA9});
  EXPECT_EQ(Next(*stream).delta().text(), "é");
  engine_->Tokens(id, {256});
  delta = Next(*stream).delta();
  EXPECT_EQ(delta.text(), "");
  EXPECT_THAT(delta.token_ids(), ElementsAre(256));

  engine_->Finish(id, EndReason::kStop, 256);
  const v1::ChoiceFinished choice = Next(*stream).choice_finished();
  EXPECT_EQ(choice.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(choice.matched_stop_case(), v1::ChoiceFinished::kTokenId);
  EXPECT_EQ(choice.token_id(), 256u);
  EXPECT_EQ(choice.completion_tokens(), 4u);
  const v1::Finished finished = Next(*stream).finished();
  EXPECT_EQ(finished.usage().prompt_tokens(), 3u);
  EXPECT_EQ(finished.usage().completion_tokens(), 4u);
  EXPECT_GE(finished.timings().total_ms(), finished.timings().ttft_ms());
  EXPECT_GT(finished.timings().ttft_ms(), 0);
  EXPECT_EQ(TestClient::ReadAll(*stream).Shape(), "OK");
}

TEST_F(GenerationTest, TextEndsBeforeTheStopTokenAndLeavesSpecialTokensOut) {
  v1::GenerateRequest request = TextRequest("x");
  request.mutable_params()->add_stop_token_ids('!');
  const std::vector<int32_t> ids = {'a', 257, 'b', '!'};
  Answer answer = AskAndGet(request, ids, EndReason::kStop, '!');
  EXPECT_EQ(answer.text(), "ab");
  EXPECT_THAT(answer.token_ids(), ElementsAre('a', 257, 'b', '!'));
  EXPECT_THAT(last_request_->stop_token_ids, ElementsAre('!', 256));

  request.mutable_params()->set_skip_special_tokens(false);
  request.mutable_params()->set_ignore_eos(true);
  answer = AskAndGet(request, {'a', 257, 256, 'b', '!'}, EndReason::kStop, '!');
  EXPECT_EQ(answer.text(), "a<|turn|><|eos|>b");
  EXPECT_THAT(last_request_->stop_token_ids, ElementsAre('!'));
}

TEST_F(GenerationTest, WhatCannotBecomeACharacterIsReplacedAtTheEnd) {
  const Answer answer = AskAndGet(TextRequest("x"), {'a', 0xE2, 0x82}, EndReason::kLength);
  EXPECT_EQ(answer.text(), "a\uFFFD");
  EXPECT_THAT(answer.Shape(), StartsWith("accepted delta"));
  EXPECT_THAT(answer.Shape(), HasSubstr("choice(LENGTH) finished OK"));
}

TEST_F(GenerationTest, IdsWithoutATokenAddNoText) {
  EXPECT_EQ(AskAndGet(TextRequest("x"), {'a', 299, 'b'}, EndReason::kLength).text(), "ab");
}

TEST_F(GenerationTest, UnstreamedTokensComeAllAtOnce) {
  v1::GenerateRequest request = TextRequest("x");
  request.set_stream(false);
  auto stream = client_->Generate(request);
  const FakeEngine::Submission submission = engine_->WaitForSubmission();
  engine_->Accept(submission.id);
  EXPECT_TRUE(Next(*stream).has_accepted());
  for (const char c : std::string("slowly")) {
    engine_->Tokens(submission.id, {c});
    engine_->WaitUntilTold();
  }
  engine_->Finish(submission.id, EndReason::kLength);
  const Answer answer = TestClient::ReadAll(*stream);
  EXPECT_EQ(answer.Shape(), "delta choice(LENGTH) finished OK");
  EXPECT_EQ(answer.text(), "slowly");
}

TEST_F(GenerationTest, AnUnstreamedRequestThatFailsShowsNoTokens) {
  v1::GenerateRequest request = TextRequest("x");
  request.set_stream(false);
  const Answer answer = AskAndGet(request, {'a', 'b'}, EndReason::kNumericalFault);
  EXPECT_EQ(answer.Shape(), "accepted INTERNAL/NUMERICAL_FAULT");
}

TEST_F(GenerationTest, PromptIdsAreToldWhenAsked) {
  v1::GenerateRequest request = IdsRequest({7, 8, 9});
  request.set_return_prompt_token_ids(true);
  const Answer answer = AskAndGet(request, {'a'}, EndReason::kLength);
  EXPECT_EQ(answer.Shape(), "accepted prompt delta choice(LENGTH) finished OK");
  EXPECT_EQ(answer.events[1].prompt().token_offset(), 0u);
  EXPECT_THAT(answer.events[1].prompt().token_ids(), ElementsAre(7, 8, 9));
}

TEST_F(GenerationTest, AChatIsRenderedWithTheTemplate) {
  v1::GenerateRequest request;
  v1::Message* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("\"é\"");
  message->set_name("Zoe");
  (*request.mutable_chat()->mutable_template_args()->mutable_fields())["mood"].set_string_value(
      "glad");
  AskAndGet(request, {}, EndReason::kLength);
  std::vector<int32_t> expected = Bytes("(glad)");
  for (const std::string part : {"user/Zoe:\"é\"", "assistant:"}) {
    expected.push_back(257);
    for (const int32_t id : Bytes(part)) expected.push_back(id);
  }
  EXPECT_EQ(last_request_->prompt_token_ids, expected);
}

TEST_F(GenerationTest, EndsWithoutTokensAreEndsToo) {
  EXPECT_EQ(AskAndGet(TextRequest("x"), {}, EndReason::kLength).Shape(),
            "accepted choice(LENGTH) finished OK");
}

TEST_F(GenerationTest, EveryReasonHasItsStatus) {
  struct Case {
    EndReason reason;
    bool with_token;
    std::string shape;  // of the end
  };
  const std::vector<Case> cases = {
      {EndReason::kStop, true, "choice(STOP) finished OK"},
      {EndReason::kLength, true, "choice(LENGTH) finished OK"},
      {EndReason::kAborted, true, "choice(ABORTED) finished OK"},
      {EndReason::kTimeLimit, true, "choice(TIME_LIMIT) finished OK"},
      {EndReason::kCancelled, true, "CANCELLED/CANCELLED"},
      {EndReason::kDeadline, true, "DEADLINE_EXCEEDED/DEADLINE_EXCEEDED"},
      {EndReason::kQueueTimeout, false, "RESOURCE_EXHAUSTED/QUEUE_TIMEOUT"},
      {EndReason::kSlowConsumer, true, "RESOURCE_EXHAUSTED/SLOW_CONSUMER"},
      {EndReason::kDraining, false, "UNAVAILABLE/DRAINING"},
      {EndReason::kNumericalFault, true, "INTERNAL/NUMERICAL_FAULT"},
      {EndReason::kEngineFailed, true, "INTERNAL/ENGINE_FAILED"},
      {EndReason::kEngineFailed, false, "UNAVAILABLE/ENGINE_RESTARTING"},
  };
  for (const Case& one : cases) {
    v1::GenerateRequest request = TextRequest("x");
    request.set_request_id("the-id");
    const Answer answer = AskAndGet(
        request, one.with_token ? std::vector<int32_t>{'a'} : std::vector<int32_t>{}, one.reason);
    EXPECT_EQ(answer.Shape(), absl::StrCat("accepted ", one.with_token ? "delta " : "", one.shape));
    if (answer.status.ok()) continue;
    EXPECT_EQ(answer.status.info.domain(), "quire");
    const auto& metadata = answer.status.info.metadata();
    EXPECT_EQ(metadata.at("request_id"), "the-id");
    EXPECT_EQ(metadata.at("completion_tokens"), one.with_token ? "1" : "0");
    EXPECT_EQ(metadata.at("stage"), one.with_token ? "running" : "queued");
    const bool retry = answer.status.message.find("QUEUE_TIMEOUT") == 0 || answer.status.code == 14;
    EXPECT_EQ(answer.status.retry.retry_delay().seconds() > 0, retry) << answer.status.message;
    EXPECT_EQ(answer.status.retry_pushback_ms.empty(), !retry);
  }
}

TEST_F(GenerationTest, RefusalsOfTheEngineArePassedOn) {
  auto stream = client_->Generate(TextRequest("x"));
  engine_->Refuse(engine_->WaitForSubmission().id,
                  absl::ResourceExhaustedError("QUEUE_FULL: 512 requests wait"));
  Answer answer = TestClient::ReadAll(*stream);
  EXPECT_EQ(answer.Shape(), "RESOURCE_EXHAUSTED/QUEUE_FULL");
  EXPECT_EQ(answer.status.message, "QUEUE_FULL: 512 requests wait");
  EXPECT_EQ(answer.status.retry.retry_delay().seconds(), 1);
  EXPECT_EQ(answer.status.retry_pushback_ms, "1000");
  EXPECT_EQ(answer.status.info.metadata().count("request_id"), 1u);
  EXPECT_EQ(answer.status.info.metadata().at("limit"), "512");
  EXPECT_EQ(answer.status.info.metadata().at("current"), "0");
  EXPECT_EQ(answer.status.info.metadata().at("prompt_tokens"), "1");

  for (const std::string reason : {"CONTEXT_LENGTH_EXCEEDED", "REQUEST_EXCEEDS_KV_CAPACITY"}) {
    stream = client_->Generate(TextRequest("abc"));
    engine_->Refuse(engine_->WaitForSubmission().id,
                    absl::InvalidArgumentError(reason + ": too long"));
    answer = TestClient::ReadAll(*stream);
    EXPECT_EQ(answer.Shape(), "INVALID_ARGUMENT/" + reason);
    EXPECT_EQ(answer.status.info.metadata().at("limit"), "4096");
    EXPECT_EQ(answer.status.info.metadata().at("prompt_tokens"), "3");
    EXPECT_EQ(answer.status.info.metadata().at("max_tokens"), "4093");
  }

  engine_->FailSubmits(absl::ResourceExhaustedError("QUEUE_FULL: the inbox is full"));
  answer = Ask(TextRequest("x"));
  EXPECT_EQ(answer.Shape(), "RESOURCE_EXHAUSTED/QUEUE_FULL");
  EXPECT_EQ(answer.status.info.metadata().at("limit"), "512");
}

TEST_F(GenerationTest, ClientsMayLeaveInEveryState) {
  for (const std::string state : {"submitted", "accepted", "running"}) {
    auto stream = client_->Generate(TextRequest("x"));
    const SequenceId id = engine_->WaitForSubmission().id;
    if (state != "submitted") {
      engine_->Accept(id);
      EXPECT_TRUE(Next(*stream).has_accepted());
    }
    if (state == "running") {
      engine_->Tokens(id, {'a'});
      EXPECT_TRUE(Next(*stream).has_delta());
    }
    stream->Cancel();
    EXPECT_EQ(engine_->WaitForEnd(id), EndReason::kCancelled) << state;
    EXPECT_EQ(TestClient::ReadAll(*stream).Shape(), "CANCELLED") << state;
  }
}

TEST_F(GenerationTest, AbortEndsWithUsageAndOk) {
  for (const std::string state : {"submitted", "accepted", "running"}) {
    v1::GenerateRequest request = TextRequest("x");
    request.set_request_id(absl::StrCat("abort-", state));
    auto stream = client_->Generate(request);
    const SequenceId id = engine_->WaitForSubmission().id;
    engine_->Accept(id);
    std::string expected = "accepted ";
    if (state != "submitted") {
      EXPECT_TRUE(Next(*stream).has_accepted());
      expected = "";
    }
    if (state == "running") {
      engine_->Tokens(id, {'a'});
      EXPECT_TRUE(Next(*stream).has_delta());
    }
    v1::AbortRequest abort;
    abort.add_request_ids("nobody");
    abort.add_request_ids(request.request_id());
    v1::AbortResponse response;
    for (int again = 0; again < 2; ++again) {
      EXPECT_TRUE(client_->Call("/quire.v1.GenerationService/Abort", abort, &response).ok());
    }
    const Answer answer = TestClient::ReadAll(*stream);
    EXPECT_EQ(answer.Shape(), expected + "choice(ABORTED) finished OK");
    EXPECT_EQ(answer.events.back().finished().usage().prompt_tokens(), 1u);
  }
}

TEST_F(GenerationTest, IdsNameOneLiveRequest) {
  v1::GenerateRequest request = TextRequest("x");
  request.set_request_id("twin");
  auto stream = client_->Generate(request);
  const SequenceId id = engine_->WaitForSubmission().id;
  const Answer refused = Ask(request);
  EXPECT_EQ(refused.Shape(), "ALREADY_EXISTS/REQUEST_ID_IN_USE");
  EXPECT_EQ(refused.status.info.metadata().at("request_id"), "twin");
  engine_->Accept(id);
  engine_->Finish(id, EndReason::kLength);
  EXPECT_TRUE(TestClient::ReadAll(*stream).status.ok());
  // It is over: the name is free again.
  EXPECT_TRUE(AskAndGet(request, {'a'}, EndReason::kLength).status.ok());
}

TEST_F(GenerationTest, IdsComeFromTheRequestElseFromMetadataElseAreMade) {
  const auto id_of = [&](const v1::GenerateRequest& request, const CallOptions& options) {
    auto stream = client_->Generate(request, options);
    const SequenceId id = engine_->WaitForSubmission().id;
    engine_->Accept(id);
    const std::string request_id = Next(*stream).accepted().request_id();
    EXPECT_EQ(stream->InitialMetadata("x-request-id"), request_id);
    engine_->Finish(id, EndReason::kLength);
    EXPECT_TRUE(TestClient::ReadAll(*stream).status.ok());
    return request_id;
  };
  CallOptions options;
  options.metadata["x-request-id"] = "from-metadata";
  v1::GenerateRequest request = TextRequest("x");
  EXPECT_EQ(id_of(request, options), "from-metadata");
  const std::string made = id_of(request, {});
  EXPECT_NE(made, "");
  EXPECT_NE(made, id_of(request, {}));
  request.set_request_id("own");
  EXPECT_EQ(id_of(request, options), "own");

  options.metadata["x-request-id"] = "no spaces";
  EXPECT_EQ(Ask(TextRequest("x"), options).Shape(), "INVALID_ARGUMENT/INVALID_FIELD");
}

TEST_F(GenerationTest, TimesAreOnTheEnginesClock) {
  v1::GenerateRequest request = TextRequest("x");
  request.mutable_params()->set_max_time_ms(7'000);
  request.mutable_params()->set_max_queue_ms(5'000);
  CallOptions options;
  options.timeout_ms = 30'000;
  auto stream = client_->Generate(request, options);
  const auto [id, submitted] = engine_->WaitForSubmission();
  const TimeUs now = engine_->Now();
  EXPECT_LE(submitted->time_limit, now + 7'000'000);
  EXPECT_LE(submitted->queue_deadline, now + 5'000'000);
  EXPECT_LT(submitted->deadline, now + 30'200'000) << "gRPC rounds it up to tenths of a second";
  EXPECT_GT(submitted->deadline, now + 20'000'000);
  engine_->Finish(id, EndReason::kLength);

  stream = client_->Generate(TextRequest("x"));
  const auto limited = engine_->WaitForSubmission();
  EXPECT_LE(limited.request->time_limit, engine_->Now() + 3'600'000'000);
  EXPECT_EQ(limited.request->queue_deadline, kNever);
}

TEST_F(GenerationTest, AMessageOverTheLimitIsRefused) {
  const Answer answer = Ask(TextRequest(std::string(5 << 20, 'x')));
  EXPECT_EQ(answer.Shape(), "RESOURCE_EXHAUSTED");
  // Compressed it would be small enough.
  CallOptions compressed;
  compressed.gzip = true;
  EXPECT_EQ(Ask(TextRequest(std::string(5 << 20, 'x')), compressed).Shape(), "UNIMPLEMENTED");
  // The server goes on.
  EXPECT_TRUE(AskAndGet(TextRequest("x"), {'a'}, EndReason::kLength).status.ok());
}

}  // namespace
}  // namespace quire
