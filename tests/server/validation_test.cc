// What requests may hold, asked of a server: a wrong one is refused by name, and the server goes
// on.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/server/server_fixture.h"

namespace quire {
namespace {

using testing::HasSubstr;

class ValidationTest : public ServerFixture {
 protected:
  // Refused as INVALID_FIELD about `field`.
  void ExpectRefused(const v1::GenerateRequest& request, const std::string& field,
                     const std::string& part = "") {
    const Answer answer = Ask(request);
    EXPECT_EQ(answer.Shape(), "INVALID_ARGUMENT/INVALID_FIELD") << field;
    ASSERT_GE(answer.status.bad_request.field_violations_size(), 1) << field;
    EXPECT_EQ(answer.status.bad_request.field_violations(0).field(), field);
    EXPECT_THAT(answer.status.message, HasSubstr(field));
    EXPECT_THAT(answer.status.message, HasSubstr(part));
  }
  v1::Accepted AcceptedOf(const v1::GenerateRequest& request) {
    auto stream = client_->Generate(request);
    const FakeEngine::Submission submission = engine_->WaitForSubmission();
    last_request_ = submission.request;
    engine_->Accept(submission.id);
    v1::Accepted accepted = Next(*stream).accepted();
    engine_->Finish(submission.id, EndReason::kLength);
    EXPECT_TRUE(TestClient::ReadAll(*stream).status.ok());
    return accepted;
  }
  std::shared_ptr<const Request> last_request_;
};

TEST_F(ValidationTest, AllThatIsWrongIsToldAtOnce) {
  StartServer();
  v1::GenerateRequest request;
  request.set_request_id("no spaces");
  request.mutable_params()->set_top_k(-7);
  request.mutable_params()->set_min_p(2);
  const Answer answer = Ask(request);
  std::vector<std::string> fields;
  for (const auto& violation : answer.status.bad_request.field_violations()) {
    fields.push_back(violation.field());
  }
  EXPECT_THAT(fields, testing::UnorderedElementsAre("request_id", "params.top_k", "params.min_p",
                                                    "prompt"));
}

TEST_F(ValidationTest, PromptsAreChecked) {
  ServerLimits limits;
  limits.max_prompt_bytes = 100;
  limits.max_chat_messages = 3;
  StartServer(limits);
  ExpectRefused({}, "prompt", "not set");
  ExpectRefused(TextRequest(""), "text", "empty");
  ExpectRefused(TextRequest(std::string(101, 'x')), "text", "101 bytes");
  ExpectRefused(IdsRequest({}), "token_ids.ids", "empty");
  ExpectRefused(IdsRequest({0, 299, 300}), "token_ids.ids[2]", "300");
  ExpectRefused(IdsRequest({4'000'000'000u}), "token_ids.ids[0]", "4000000000");

  v1::GenerateRequest request = IdsRequest({1});
  request.set_add_special_tokens(true);
  ExpectRefused(request, "add_special_tokens");

  v1::GenerateRequest chat;
  chat.mutable_chat();
  ExpectRefused(chat, "chat.messages", "empty");
  v1::Message* message = chat.mutable_chat()->add_messages();
  ExpectRefused(chat, "chat.messages[0].role");
  message->set_role(std::string(65, 'r'));
  ExpectRefused(chat, "chat.messages[0].role", "65 bytes");
  message->set_role("user");
  message->set_content(std::string(97, 'x'));
  ExpectRefused(chat, "chat", "101 bytes");
  message->set_content(std::string(101, 'x'));
  ExpectRefused(chat, "chat.messages[0].content", "101 bytes");
  message->set_content("");
  for (int i = 0; i < 3; ++i) chat.mutable_chat()->add_messages()->set_role("user");
  ExpectRefused(chat, "chat.messages", "4 messages");
  chat.mutable_chat()->mutable_messages()->DeleteSubrange(1, 3);
  message->set_role("villain");
  ExpectRefused(chat, "chat", "no villains here");
}

TEST_F(ValidationTest, BytesThatNoClientShouldSendAreRefused) {
  StartServer();
  const auto send = [&](const std::string& bytes) {
    return TestClient::ReadAll(*client_->OpenStream("/quire.v1.GenerationService/Generate", bytes));
  };
  Answer answer = send("\x1A\x02\xC3\x28");  // text: not UTF-8
  EXPECT_EQ(answer.Shape(), "INVALID_ARGUMENT/INVALID_FIELD");
  EXPECT_EQ(answer.status.bad_request.field_violations(0).field(), "text");
  EXPECT_EQ(send("\xFF\xFF").Shape(), "INVALID_ARGUMENT/INVALID_FIELD");
  // params (7) { field 33 }: a parameter of a newer client, say
  answer = send(std::string("\x1A\x01x\x3A\x05\x8D\x02\x00\x00\x80", 10));
  EXPECT_EQ(answer.Shape(), "INVALID_ARGUMENT/UNKNOWN_FIELD");
  EXPECT_EQ(answer.status.info.metadata().at("message"), "quire.v1.GenerationParams");
  EXPECT_EQ(answer.status.info.metadata().at("field_number"), "33");
  AcceptedOf(TextRequest("the server goes on"));
}

TEST_F(ValidationTest, ModelsAreKnownByNameAndAlias) {
  StartServer();
  for (const char* name : {"", "Fake-256", "fake"}) {
    v1::GenerateRequest request = TextRequest("x");
    request.set_model(name);
    EXPECT_EQ(AcceptedOf(request).model(), "Fake-256");
  }
  v1::GenerateRequest request = TextRequest("x");
  request.set_model("other");
  const Answer answer = Ask(request);
  EXPECT_EQ(answer.Shape(), "NOT_FOUND/MODEL_NOT_FOUND");
  EXPECT_EQ(answer.status.info.metadata().at("model"), "other");

  std::string long_name = "x";
  while (long_name.size() < 3000) long_name += "é";
  request.set_model(long_name);
  const ClientStatus status = Ask(request).status;
  EXPECT_EQ(status.Summary(), "NOT_FOUND/MODEL_NOT_FOUND");
  EXPECT_EQ(status.info.metadata().at("model"), long_name.substr(0, 253) + "...");
}

TEST_F(ValidationTest, RequestIdsAreChecked) {
  StartServer();
  v1::GenerateRequest request = TextRequest("x");
  for (const std::string& id :
       {std::string(129, 'a'), std::string("a b"), std::string("ü"), std::string("a/b")}) {
    request.set_request_id(id);
    ExpectRefused(request, "request_id");
  }
  request.set_request_id(std::string(128, 'a'));
  EXPECT_EQ(AcceptedOf(request).request_id(), request.request_id());
}

TEST_F(ValidationTest, ParametersOfTheRequestWinOverTheModelsOverTheDefaults) {
  StartServer();  // the model says temperature 0.5 and nothing else
  v1::GenerationParams params = AcceptedOf(TextRequest("abc")).params();
  EXPECT_FLOAT_EQ(params.temperature(), 0.5f);
  EXPECT_TRUE(params.has_top_k() && params.has_top_p() && params.has_min_p() && params.has_seed() &&
              params.has_max_tokens() && params.has_ignore_eos() && params.has_priority() &&
              params.has_skip_special_tokens() && params.has_max_time_ms() &&
              params.has_max_queue_ms())
      << params.ShortDebugString();
  EXPECT_EQ(params.top_k(), 0);
  EXPECT_EQ(params.top_p(), 1);
  EXPECT_EQ(params.max_tokens(), 4096u - 3u);
  EXPECT_EQ(params.max_time_ms(), 3'600'000u);
  EXPECT_EQ(last_request_->sampling.seed, static_cast<uint64_t>(params.seed()));
  EXPECT_NE(params.seed(), AcceptedOf(TextRequest("abc")).params().seed()) << "drawn anew";

  v1::GenerateRequest request = TextRequest("abc");
  request.mutable_params()->set_temperature(0);
  request.mutable_params()->set_top_k(5);
  request.mutable_params()->set_top_p(0.25f);
  request.mutable_params()->set_min_p(0.125f);
  request.mutable_params()->set_seed(-42);
  request.mutable_params()->set_max_tokens(9);
  request.mutable_params()->set_priority(-3);
  params = AcceptedOf(request).params();
  EXPECT_EQ(params.temperature(), 0);
  EXPECT_EQ(params.seed(), -42);
  EXPECT_EQ(params.max_tokens(), 9u);
  const SamplingParams& sampling = last_request_->sampling;
  EXPECT_EQ(sampling.temperature, 0);
  EXPECT_EQ(sampling.top_k, 5);
  EXPECT_EQ(sampling.top_p, 0.25f);
  EXPECT_EQ(sampling.min_p, 0.125f);
  EXPECT_EQ(sampling.seed, static_cast<uint64_t>(int64_t{-42}));
  EXPECT_EQ(last_request_->max_tokens, 9);
  EXPECT_EQ(last_request_->priority, -3);
}

TEST_F(ValidationTest, ALongTimeLimitIsCappedAtWhatAFieldHolds) {
  ServerLimits limits;
  limits.max_request_seconds = 5'000'000;
  StartServer(limits);
  EXPECT_EQ(AcceptedOf(TextRequest("x")).params().max_time_ms(), 4'294'967'295u);
}

TEST_F(ValidationTest, ATextThatCannotFitIsRefusedBeforeItIsTokenised) {
  Open();
  ModelInfo info = FakeModelInfo();
  info.max_model_len = 100;
  Load(info);
  const auto metadata_of = [&](size_t num_bytes) {
    const ClientStatus status = Ask(TextRequest(std::string(num_bytes, 'x'))).status;
    EXPECT_EQ(status.Summary(), "INVALID_ARGUMENT/CONTEXT_LENGTH_EXCEEDED");
    EXPECT_EQ(status.info.metadata().at("limit"), "100");
    return status.info.metadata();
  };
  // The longest token, "<|turn|>", has 8 bytes.
  EXPECT_EQ(metadata_of(801).at("prompt_bytes"), "801");
  EXPECT_EQ(metadata_of(801).at("max_prompt_bytes"), "800");
  EXPECT_EQ(metadata_of(800).at("prompt_tokens"), "800");
}

TEST_F(ValidationTest, LengthsAreRefusedWithTheNumbersAndNeverClipped) {
  ServerLimits limits;
  limits.max_output_tokens = 50;
  Open(limits);
  ModelInfo info = FakeModelInfo();
  info.max_model_len = 100;
  info.num_blocks = 5;  // 80 tokens
  Load(info);
  EXPECT_EQ(AcceptedOf(TextRequest(std::string(10, 'x'))).params().max_tokens(), 50u);
  EXPECT_EQ(AcceptedOf(TextRequest(std::string(60, 'x'))).params().max_tokens(), 21u);
  EXPECT_EQ(AcceptedOf(TextRequest(std::string(80, 'x'))).params().max_tokens(), 1u);

  const auto refused = [&](size_t prompt, uint32_t max_tokens) {
    v1::GenerateRequest request = TextRequest(std::string(prompt, 'x'));
    if (max_tokens > 0) request.mutable_params()->set_max_tokens(max_tokens);
    const ClientStatus status = Ask(request).status;
    const auto& metadata = status.info.metadata();
    return absl::StrCat(status.Summary(), " limit ", metadata.at("limit"), " prompt ",
                        metadata.at("prompt_tokens"), " max ", metadata.at("max_tokens"));
  };
  EXPECT_EQ(refused(90, 11), "INVALID_ARGUMENT/CONTEXT_LENGTH_EXCEEDED limit 100 prompt 90 max 11");
  EXPECT_EQ(refused(100, 0), "INVALID_ARGUMENT/CONTEXT_LENGTH_EXCEEDED limit 100 prompt 100 max 1");
  EXPECT_EQ(refused(81, 0),
            "INVALID_ARGUMENT/REQUEST_EXCEEDS_KV_CAPACITY limit 80 prompt 81 max 1");
  EXPECT_EQ(refused(60, 22),
            "INVALID_ARGUMENT/REQUEST_EXCEEDS_KV_CAPACITY limit 80 prompt 60 max 22");
}

}  // namespace
}  // namespace quire
