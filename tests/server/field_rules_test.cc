// Every field of every request has a row in the table of limits, and here a value just inside and
// one just outside. A field that is new in a .proto file fails until both are there.
#include "server/field_rules.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <google/protobuf/text_format.h>

#include "quire/v1/admin.pb.h"
#include "server/errors.h"
#include "server/validation.h"
#include "tests/server/field_cases.h"
#include "tests/testing/byte_text.h"
#include "tests/testing/fake_engine.h"

namespace quire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using testing::HasSubstr;

class FieldRulesTest : public testing::Test {
 protected:
  FieldRulesTest() {
    model_.name = "Fake-256";
    model_.aliases = {X(4096)};
    model_.info = FakeModelInfo();
    model_.text = MakeByteText();
  }

  template <class Request>
  static Request Parsed(const std::string& text) {
    Request request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
    return request;
  }

  absl::Status Check(const std::string& type, const std::string& text) {
    if (type == "AbortRequest") {
      return CheckWithoutModel(Parsed<v1::AbortRequest>(text), limits_);
    }
    if (type == "AbortAnyRequest") {
      return CheckWithoutModel(Parsed<v1::AbortAnyRequest>(text), limits_);
    }
    if (type == "SetLogLevelRequest") {
      return CheckWithoutModel(Parsed<v1::SetLogLevelRequest>(text), limits_);
    }
    if (type == "TokenizeRequest") {
      return CheckTokenize(Parsed<v1::TokenizeRequest>(text), model_, limits_);
    }
    if (type == "DetokenizeRequest") {
      return CheckDetokenize(Parsed<v1::DetokenizeRequest>(text), model_, limits_);
    }
    if (type == "GetModelRequest") {
      return CheckGetModel(Parsed<v1::GetModelRequest>(text), model_, limits_);
    }
    if (type == "ApplyChatTemplateRequest") {
      auto request = Parsed<v1::ApplyChatTemplateRequest>(text);
      if (!request.has_chat()) request.mutable_chat()->add_messages()->set_role("u");
      return CheckApplyChatTemplate(request, model_, limits_);
    }
    auto request = Parsed<v1::GenerateRequest>(text);
    if (request.prompt_case() == v1::GenerateRequest::PROMPT_NOT_SET) {
      request.mutable_token_ids()->add_ids(1);
    }
    return CheckGenerate(request, model_, limits_);
  }

  const ServerLimits limits_ = LimitsOfCases();
  ServingModel model_;
};

// All fields that a request of any service can hold, at any depth.
void Walk(const Descriptor& type, std::map<std::string, const FieldDescriptor*>& fields) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    std::string name = field->full_name();
    if (absl::StartsWith(name, "quire.v1.")) name = name.substr(9);
    if (!fields.emplace(name, field).second) continue;
    if (field->message_type() != nullptr) Walk(*field->message_type(), fields);
  }
}

std::map<std::string, const FieldDescriptor*> AllFields() {
  std::map<std::string, const FieldDescriptor*> fields;
  for (const Descriptor* of_file :
       {v1::GenerateRequest::descriptor(), v1::TokenizeRequest::descriptor(),
        v1::GetModelRequest::descriptor(), v1::DrainRequest::descriptor()}) {
    const auto& file = *of_file->file();
    for (int i = 0; i < file.service_count(); ++i) {
      for (int j = 0; j < file.service(i)->method_count(); ++j) {
        Walk(*file.service(i)->method(j)->input_type(), fields);
      }
    }
  }
  return fields;
}

TEST_F(FieldRulesTest, EveryFieldOfEveryRequestHasARowAndACase) {
  const std::map<std::string, FieldCase> cases = FieldCases();
  std::set<std::string> names;
  for (const auto& [name, field] : AllFields()) {
    names.insert(name);
    const FieldRule* rule = RuleOf(*field);
    ASSERT_NE(rule, nullptr) << name << " has no row in server/field_rules.cc";
    const bool is_flag = field->type() == FieldDescriptor::TYPE_BOOL;
    const bool is_sub_message = rule->kind == FieldKind::kMessage && !field->is_repeated();
    if (rule->kind == FieldKind::kAny) {
      EXPECT_STRNE(rule->note, "") << name;
      EXPECT_FALSE(field->is_repeated()) << name;
    }
    EXPECT_EQ(rule->kind == FieldKind::kMessage, field->message_type() != nullptr) << name;
    EXPECT_EQ(rule->kind == FieldKind::kEnum, field->enum_type() != nullptr) << name;
    EXPECT_EQ(rule->kind == FieldKind::kText, field->type() == FieldDescriptor::TYPE_STRING)
        << name;
    const bool needs_no_case = is_flag || is_sub_message || UnboundedFields().contains(name);
    EXPECT_NE(cases.contains(name), needs_no_case) << name << ": a case, or a reason for none";
  }
  for (const FieldRule& rule : FieldRules()) {
    EXPECT_TRUE(names.contains(std::string(rule.field))) << rule.field << " is of no request";
  }
  for (const auto& [name, one] : cases) EXPECT_TRUE(names.contains(name)) << name;
}

TEST_F(FieldRulesTest, JustInsideIsTakenAndJustOutsideIsRefusedByName) {
  for (const auto& [name, one] : FieldCases()) {
    const absl::Status inside = Check(one.request, one.inside);
    EXPECT_TRUE(inside.ok()) << name << ": " << inside;
    const absl::Status outside = Check(one.request, one.outside);
    EXPECT_EQ(outside.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(ReasonOf(outside), "INVALID_FIELD") << name;
    ASSERT_EQ(ViolationsOf(outside).size(), 1u) << name << ": " << outside;
    std::string field = name.substr(name.rfind('.') + 1);
    EXPECT_THAT(ViolationsOf(outside)[0].first, HasSubstr(field));
    EXPECT_THAT(std::string(outside.message()), HasSubstr(ViolationsOf(outside)[0].first));
  }
}

TEST_F(FieldRulesTest, BothEndsOfARangeHold) {
  const std::vector<std::string> right = {"temperature: 0",
                                          "temperature: 0.000001",
                                          "top_p: 1e-37",
                                          "min_p: 0",
                                          "priority: 100",
                                          "presence_penalty: 2",
                                          "max_tokens: 1",
                                          "n: 1",
                                          "logprobs: 0",
                                          "top_n_sigma: 0",
                                          "xtc_probability: 0",
                                          "frequency_penalty: -2",
                                          "seed: -1",
                                          "max_queue_ms: 4294967295",
                                          "max_time_ms: 0",
                                          "repetition_penalty: 1e-6",
                                          "logit_bias { key: 0 value: 100 }",
                                          "xtc_threshold: 1e-6",
                                          "truncate_prompt_tokens: 1"};
  for (const std::string& text : right) {
    EXPECT_TRUE(Check("GenerateRequest", Params(text)).ok()) << text;
  }
  const std::vector<std::string> wrong = {"temperature: 9e-7",
                                          "temperature: -0.001",
                                          "temperature: nan",
                                          "temperature: inf",
                                          "top_p: 0",
                                          "top_p: nan",
                                          "min_p: -0.001",
                                          "min_p: nan",
                                          "priority: 101",
                                          "presence_penalty: nan",
                                          "max_tokens: 0",
                                          "n: 0",
                                          "top_n_sigma: -0.1",
                                          "top_n_sigma: inf",
                                          "typical_p: nan",
                                          "xtc_threshold: 0",
                                          "xtc_probability: nan",
                                          "frequency_penalty: inf",
                                          "stop: ''",
                                          "bad_words: ''",
                                          "repetition_penalty: 0",
                                          "repetition_penalty: nan",
                                          "stop_token_ids: 300",
                                          "allowed_token_ids: 300",
                                          "truncate_prompt_tokens: 0",
                                          "logit_bias { key: 1 value: nan }",
                                          "logit_bias { key: 1 value: inf }"};
  for (const std::string& text : wrong) {
    const absl::Status status = Check("GenerateRequest", Params(text));
    EXPECT_EQ(ReasonOf(status), "INVALID_FIELD") << text;
    ASSERT_EQ(ViolationsOf(status).size(), 1u) << text;
    EXPECT_THAT(ViolationsOf(status)[0].first,
                HasSubstr("params." + text.substr(0, text.find_first_of(": "))));
  }
  for (const char* empty : {"text: ''", "token_ids {}", "chat {}", "chat { messages {} }"}) {
    EXPECT_EQ(ReasonOf(Check("GenerateRequest", empty)), "INVALID_FIELD") << empty;
  }
  EXPECT_EQ(ReasonOf(Check("AbortRequest", Quoted("request_ids", X(129)))), "INVALID_FIELD");
}

TEST_F(FieldRulesTest, ARefusalHasTheNumbersAndNamesTheFlag) {
  const absl::Status status = Check("GenerateRequest", Params("n: 7 top_p: 2 stop: ''"));
  EXPECT_EQ(status.message(), "INVALID_FIELD: params.top_p: 2 is not in (0, 1]");
  EXPECT_THAT(MetadataOf(status),
              testing::UnorderedElementsAre(testing::Pair("field", "params.top_p"),
                                            testing::Pair("value", "2"), testing::Pair("min", "0"),
                                            testing::Pair("max", "1")));
  const auto violations = ViolationsOf(status);
  const std::map<std::string, std::string> by_field(violations.begin(), violations.end());
  EXPECT_EQ(by_field.size(), 3u);
  EXPECT_EQ(by_field.at("params.n"), "7 is not in [1, 6] (--max-choices)");
  EXPECT_THAT(by_field.at("params.stop[0]"), HasSubstr("is empty"));
  EXPECT_EQ(Check("GenerateRequest", Params("temperature: -1")).message(),
            "INVALID_FIELD: params.temperature: -1 is not 0 or in [1e-06, 100]");
}

TEST_F(FieldRulesTest, ContradictionsAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {Params("min_tokens: 5 max_tokens: 4"), "params.min_tokens"},
      {Params("allowed_token_ids: 5 allowed_token_ids: 6 allowed_token_ids: 5"),
       "params.allowed_token_ids"},
      // 256 is EOS.
      {Params("allowed_token_ids: 5 allowed_token_ids: 256 stop_token_ids: 5 min_tokens: 1"),
       "params.min_tokens"},
      {Chat("continue_final_message: true add_generation_prompt: true"),
       "chat.continue_final_message"},
      {"token_ids { ids: 1 } add_special_tokens: true", "add_special_tokens"},
      {Chat("tools_json: '" + X(kPromptBytes) + "'"), "chat"},
  };
  for (const auto& [text, field] : cases) {
    const absl::Status status = Check("GenerateRequest", text);
    EXPECT_EQ(ReasonOf(status), "INVALID_FIELD") << text;
    ASSERT_EQ(ViolationsOf(status).size(), 1u) << text;
    EXPECT_EQ(ViolationsOf(status)[0].first, field);
  }
  const std::vector<std::string> fine = {
      Params("min_tokens: 4 max_tokens: 4"),
      Params("allowed_token_ids: 5 allowed_token_ids: 256 stop_token_ids: 5"),
      Params("allowed_token_ids: 5 allowed_token_ids: 256 min_tokens: 1"),
      Params("allowed_token_ids: 256 min_tokens: 1 ignore_eos: true"),
      Params("xtc_threshold: 0.2"),
      Params("logit_bias { key: 5 value: -100 } allowed_token_ids: 5"),
      Chat("continue_final_message: true"),
      Chat("continue_final_message: true add_generation_prompt: false"),
      Chat("add_generation_prompt: true"),
  };
  for (const std::string& text : fine) {
    const absl::Status status = Check("GenerateRequest", text);
    EXPECT_TRUE(status.ok()) << text << ": " << status;
  }
}

TEST_F(FieldRulesTest, WithoutATokenizerNothingThatNeedsTextIsTaken) {
  model_.text = nullptr;
  for (const std::string& text :
       {std::string("text: 'x'"), Chat(""), Params("stop: 'x'"), Params("bad_words: 'x'")}) {
    EXPECT_EQ(ReasonOf(Check("GenerateRequest", text)), "TOKENIZER_MISSING") << text;
  }
  EXPECT_EQ(ReasonOf(Check("TokenizeRequest", "text: 'x'")), "TOKENIZER_MISSING");
  EXPECT_EQ(ReasonOf(Check("DetokenizeRequest", "token_ids: 1")), "TOKENIZER_MISSING");
  EXPECT_TRUE(Check("GenerateRequest", Params("stop_token_ids: 1 logprobs: 2")).ok());
}

}  // namespace
}  // namespace quire
