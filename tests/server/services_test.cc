// TokenizerService, ModelService and reflection, as a client sees them.
#include <string>
#include <vector>

#include "quire/v1/model.pb.h"
#include "quire/v1/tokenizer.pb.h"
#include "tests/server/server_fixture.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ServicesTest : public ServerFixture {
 protected:
  template <class Request, class Response>
  std::string Call(const std::string& method, const Request& request, Response* response) {
    status_ = client_->Call(method, request, response);
    return status_.Summary();
  }
  std::string Tokenize(const v1::TokenizeRequest& request, v1::TokenizeResponse* response) {
    return Call("/quire.v1.TokenizerService/Tokenize", request, response);
  }
  std::string Detokenize(const v1::DetokenizeRequest& request, v1::DetokenizeResponse* response) {
    return Call("/quire.v1.TokenizerService/Detokenize", request, response);
  }
  std::string ApplyChatTemplate(const v1::ApplyChatTemplateRequest& request,
                                v1::ApplyChatTemplateResponse* response) {
    return Call("/quire.v1.TokenizerService/ApplyChatTemplate", request, response);
  }
  ClientStatus status_;
};

TEST_F(ServicesTest, TextBecomesTokensAndTokensText) {
  StartServer();
  v1::TokenizeRequest request;
  request.set_model("fake");
  request.set_text("é<|turn|>");
  v1::TokenizeResponse tokens;
  EXPECT_EQ(Tokenize(request, &tokens), "OK");
  EXPECT_THAT(tokens.token_ids(), ElementsAre(0xC3, 0xA9, 257));
  request.set_parse_special_tokens(false);
  EXPECT_EQ(Tokenize(request, &tokens), "OK");
  EXPECT_EQ(tokens.token_ids_size(), 10);
  request.set_text("");
  EXPECT_EQ(Tokenize(request, &tokens), "OK");
  EXPECT_EQ(tokens.token_ids_size(), 0);

  v1::DetokenizeRequest back;
  for (const uint32_t id : {0xC3, 0xA9, 257, 299, 0xFF}) back.add_token_ids(id);
  v1::DetokenizeResponse text;
  EXPECT_EQ(Detokenize(back, &text), "OK");
  EXPECT_EQ(text.text(), "é\uFFFD");
  back.set_skip_special_tokens(false);
  EXPECT_EQ(Detokenize(back, &text), "OK");
  EXPECT_EQ(text.text(), "é<|turn|>\uFFFD");
  back.add_token_ids(300);
  EXPECT_EQ(Detokenize(back, &text), "INVALID_ARGUMENT/INVALID_FIELD");
  EXPECT_EQ(status_.bad_request.field_violations(0).field(), "token_ids[5]");
}

TEST_F(ServicesTest, AnAnswerThatWouldBeTooLargeIsRefused) {
  ServerLimits limits;
  limits.max_prompt_bytes = 4 << 20;
  Open(limits);
  Load();
  v1::TokenizeRequest request;
  for (int i = 0; i < 700'000; ++i) request.mutable_text()->append("é");
  v1::TokenizeResponse response;
  EXPECT_EQ(Tokenize(request, &response), "INVALID_ARGUMENT/INVALID_FIELD");
  EXPECT_THAT(status_.message, HasSubstr("in parts"));

  v1::DetokenizeRequest back;
  for (int i = 0; i < 140'000; ++i) back.add_token_ids(257);  // "<|turn|>"
  back.set_skip_special_tokens(false);
  v1::DetokenizeResponse text;
  EXPECT_EQ(Detokenize(back, &text), "INVALID_ARGUMENT/INVALID_FIELD");
  EXPECT_THAT(status_.message, HasSubstr("token_ids: the answer would have more than 1048576"));
}

TEST_F(ServicesTest, ConversationsAreRendered) {
  StartServer();
  v1::ApplyChatTemplateRequest request;
  v1::Message* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("hi");
  v1::ApplyChatTemplateResponse response;
  EXPECT_EQ(ApplyChatTemplate(request, &response), "OK");
  EXPECT_EQ(response.text(), "<|turn|>user:hi<|turn|>assistant:");
  EXPECT_EQ(response.token_ids(0), 257u);
  EXPECT_EQ(response.token_ids_size(), 19);
  request.mutable_chat()->set_add_generation_prompt(false);
  EXPECT_EQ(ApplyChatTemplate(request, &response), "OK");
  EXPECT_EQ(response.text(), "<|turn|>user:hi");

  request.mutable_chat()->clear_add_generation_prompt();
  request.mutable_chat()->set_continue_final_message(true);
  EXPECT_EQ(ApplyChatTemplate(request, &response), "OK");
  EXPECT_EQ(response.text(), "<|turn|>user:hi") << "and no header after it";
  request.mutable_chat()->set_add_generation_prompt(true);
  EXPECT_EQ(ApplyChatTemplate(request, &response), "INVALID_ARGUMENT/INVALID_FIELD");
  request.mutable_chat()->clear_continue_final_message();
  request.mutable_chat()->set_add_generation_prompt(false);

  message->set_role("villain");
  EXPECT_EQ(ApplyChatTemplate(request, &response), "INVALID_ARGUMENT/INVALID_FIELD");
  EXPECT_THAT(status_.message, HasSubstr("no villains here"));
  message->set_role("user");
  auto& fields = *request.mutable_chat()->mutable_template_args()->mutable_fields();
  fields["messages"].set_string_value("mine");
  EXPECT_EQ(ApplyChatTemplate(request, &response), "INVALID_ARGUMENT/INVALID_FIELD");
  EXPECT_THAT(status_.message, HasSubstr("messages"));
  EXPECT_EQ(ApplyChatTemplate({}, &response), "INVALID_ARGUMENT/INVALID_FIELD");
  EXPECT_EQ(status_.bad_request.field_violations(0).field(), "chat");
}

TEST_F(ServicesTest, ToolsAndTheirCallsReachTheTemplate) {
  StartServer();
  v1::ApplyChatTemplateRequest request;
  v1::Chat& chat = *request.mutable_chat();
  chat.set_tools_json(R"([{"type":"function","function":{"name":"clock"}}])");
  v1::Message* call = chat.add_messages();
  call->set_role("assistant");
  call->set_reasoning_content("hm");
  call->set_tool_calls_json(R"([{"function":{"name":"clock","arguments":"{\"zone\":\"CET\"}"}}])");
  v1::Message* result = chat.add_messages();
  result->set_role("tool");
  result->set_tool_call_id("c1");
  result->set_content("12:00");
  v1::ApplyChatTemplateResponse response;
  EXPECT_EQ(ApplyChatTemplate(request, &response), "OK");
  EXPECT_EQ(response.text(),
            "[clock]<|turn|>assistant:{hm}(clock CET)<|turn|>tool#c1:12:00<|turn|>assistant:");
  chat.set_tools_json("{}");
  EXPECT_EQ(ApplyChatTemplate(request, &response), "INVALID_ARGUMENT/INVALID_FIELD");
  EXPECT_EQ(status_.bad_request.field_violations(0).field(), "chat.tools_json");
}

TEST_F(ServicesTest, WithoutATemplateChatIsRefusedAndTextIsNot) {
  Open();
  Load(FakeModelInfo(), MakeByteTextWithoutTemplate());
  v1::GenerateRequest chat;
  chat.mutable_chat()->add_messages()->set_role("user");
  const Answer answer = Ask(chat);
  EXPECT_EQ(answer.Shape(), "FAILED_PRECONDITION/CHAT_TEMPLATE_MISSING");
  v1::TokenizeRequest request;
  request.set_text("x");
  v1::TokenizeResponse response;
  EXPECT_EQ(Tokenize(request, &response), "OK");
}

TEST_F(ServicesTest, WithoutATokenizerIdsAreServedWithoutText) {
  Open();
  Load(FakeModelInfo(), nullptr);
  EXPECT_EQ(Ask(TextRequest("x")).Shape(), "FAILED_PRECONDITION/TOKENIZER_MISSING");
  v1::TokenizeRequest request;
  v1::TokenizeResponse response;
  EXPECT_EQ(Tokenize(request, &response), "FAILED_PRECONDITION/TOKENIZER_MISSING");
  v1::DetokenizeResponse text;
  EXPECT_EQ(Detokenize({}, &text), "FAILED_PRECONDITION/TOKENIZER_MISSING");

  engine_->Generate([](const Request&, int32_t index) { return index < 3 ? 'a' : 256; });
  const Answer answer = Ask(IdsRequest({1, 2}));
  EXPECT_TRUE(answer.status.ok()) << answer.status.message;
  EXPECT_EQ(answer.text(), "");
  EXPECT_THAT(answer.token_ids(), ElementsAre('a', 'a', 'a', 256));
  v1::GetModelResponse model;
  EXPECT_EQ(Call("/quire.v1.ModelService/GetModel", v1::GetModelRequest(), &model), "OK");
  EXPECT_THAT(model.features(),
              testing::AllOf(testing::Contains("logprobs"), testing::Contains("choices"),
                             testing::Not(testing::Contains("stop_strings")),
                             testing::Not(testing::Contains("text"))));
}

TEST_F(ServicesTest, TheModelIsDescribed) {
  ServerLimits limits;
  limits.max_output_tokens = 77;
  limits.max_choices = 3;
  limits.max_logprobs = 4;
  limits.max_stop_strings = 5;
  limits.max_stop_string_bytes = 6;
  limits.max_logit_bias = 7;
  limits.max_allowed_token_ids = 8;
  limits.max_bad_words = 9;
  limits.max_message_bytes = 1000;
  StartServer(limits);
  v1::ListModelsResponse models;
  EXPECT_EQ(Call("/quire.v1.ModelService/ListModels", v1::ListModelsRequest(), &models), "OK");
  ASSERT_EQ(models.models_size(), 1);
  EXPECT_EQ(models.models(0).name(), "Fake-256");
  EXPECT_THAT(models.models(0).aliases(), ElementsAre("fake"));

  v1::GetModelRequest request;
  request.set_model("fake");
  v1::GetModelResponse model;
  EXPECT_EQ(Call("/quire.v1.ModelService/GetModel", request, &model), "OK");
  EXPECT_EQ(model.name(), "Fake-256");
  EXPECT_THAT(model.architectures(), ElementsAre("FakeForCausalLM"));
  EXPECT_EQ(model.vocab_size(), 300u);
  EXPECT_THAT(model.eos_token_ids(), ElementsAre(256));
  EXPECT_FALSE(model.has_bos_token_id());
  EXPECT_FLOAT_EQ(model.default_params().temperature(), 0.5f);
  EXPECT_FLOAT_EQ(model.default_params().top_p(), 1);
  EXPECT_EQ(model.limits().max_model_len(), 4096u);
  EXPECT_EQ(model.limits().max_output_tokens(), 77u);
  EXPECT_EQ(model.limits().max_choices(), 3u);
  EXPECT_EQ(model.limits().max_logprobs(), 4u);
  EXPECT_EQ(model.limits().max_stop_strings(), 5u);
  EXPECT_EQ(model.limits().max_stop_string_bytes(), 6u);
  EXPECT_EQ(model.limits().max_logit_bias(), 7u);
  EXPECT_EQ(model.limits().max_allowed_token_ids(), 8u);
  EXPECT_EQ(model.limits().max_bad_words(), 9u);
  EXPECT_EQ(model.limits().max_message_bytes(), 1000u);
  EXPECT_EQ(model.kv_cache().capacity_tokens(), 4096u);
  EXPECT_THAT(model.features(),
              testing::UnorderedElementsAre(
                  "text", "chat", "stop_strings", "bad_words", "prefix_caching", "choices",
                  "logprobs", "prompt_logprobs", "penalties", "logit_bias", "allowed_token_ids",
                  "min_tokens", "typical_p", "top_n_sigma", "xtc", "truncate_prompt_tokens"));
  EXPECT_NE(model.instance_id(), "");
  EXPECT_NE(model.version(), "");

  request.set_model("gpt-5");
  EXPECT_EQ(Call("/quire.v1.ModelService/GetModel", request, &model), "NOT_FOUND/MODEL_NOT_FOUND");
  EXPECT_EQ(status_.info.metadata().at("served_model"), "Fake-256");
}

TEST_F(ServicesTest, MalformedRequestsAreTheClientsFaultEverywhere) {
  StartServer();
  const std::string garbage = "\xFF\xFF\xFF";
  const std::string unknown = "\xF8\x06\x01";  // field 111, a varint
  for (const std::string method :
       {"GenerationService/Abort", "TokenizerService/Tokenize", "TokenizerService/Detokenize",
        "TokenizerService/ApplyChatTemplate", "ModelService/ListModels", "ModelService/GetModel"}) {
    std::string response;
    EXPECT_EQ(client_->CallRaw("/quire.v1." + method, garbage, &response).Summary(),
              "INVALID_ARGUMENT/INVALID_FIELD")
        << method;
    const ClientStatus status = client_->CallRaw("/quire.v1." + method, unknown, &response);
    EXPECT_EQ(status.Summary(), "INVALID_ARGUMENT/UNKNOWN_FIELD") << method;
    EXPECT_EQ(status.info.metadata().at("field_number"), "111");
  }
}

TEST_F(ServicesTest, ReflectionShowsAllServices) {
  StartServer();
  EXPECT_THAT(client_->ListServices(),
              ElementsAre("grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection",
                          "quire.v1.GenerationService", "quire.v1.ModelService",
                          "quire.v1.TokenizerService"));
}

}  // namespace
}  // namespace quire
