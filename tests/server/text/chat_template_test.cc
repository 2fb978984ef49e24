// What goldens do not show: bounds, refusals, broken requests, single features of templates.
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/text/text.h"

namespace quire {
namespace {

using testing::HasSubstr;

constexpr char kHello[] = R"([{"role":"user","content":"hello"}])";
constexpr char kNow[] = "2025-07-04T09:05:03";

absl::StatusOr<std::string> Render(const std::string& source, ChatRequest request = {}) {
  auto compiled =
      ChatTemplate::Compile(source, R"({"bos_token":"<s>","eos_token":{"content":"E"}})");
  if (!compiled.ok()) return compiled.status();
  if (request.messages_json.empty()) request.messages_json = kHello;
  if (request.now.empty()) request.now = kNow;
  return (*compiled)->Render(request);
}

void ExpectText(const std::string& source, const std::string& text) {
  const auto rendered = Render(source);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_EQ(*rendered, text) << source;
}

void ExpectRefused(const absl::StatusOr<std::string>& rendered, absl::StatusCode code,
                   const std::string& part) {
  EXPECT_EQ(rendered.status().code(), code) << rendered.status();
  EXPECT_THAT(std::string(rendered.status().message()), HasSubstr(part));
}

TEST(ChatTemplateTest, HasWhatTemplatesOfModelsUse) {
  ExpectText("{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}", "<s>helloE");
  ExpectText("{% for m in messages %}\n  {% if loop.first %}\nx\n  {% endif %}\n{% endfor %}",
             "x\n");
  ExpectText(
      "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}"
      "{% if i > 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
      "013");
  ExpectText("{% generation %}{{ 'a'.upper() }}{% endgeneration %}", "A");
  ExpectText("{{ ' a b '.strip().split(' ') }}{{ messages[0].get('x', 7) }}", "['a', 'b']7");
  ExpectText("{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}",
             "role=user;content=hello;");
  ExpectText("{{ strftime_now('%d %b %Y') }}", "04 Jul 2025");
  ExpectText(
      "{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}"
      "{% endfor %}{{ ns.n }}",
      "6");
  ExpectText("{{ tools is none }}{{ tools is defined }}{{ nothing is defined }}", "TrueTrueFalse");
}

TEST(ChatTemplateTest, WritesJsonAsPythonDoes) {
  ExpectText("{{ {'b': [1, 1.0, none, true], 'a': \"<é>'\"} | tojson }}",
             R"({"b": [1, 1.0, null, true], "a": "<é>'"})");
  ExpectText("{{ {'b': {}, 'a': [1]} | tojson(indent=2) }}",
             "{\n  \"b\": {},\n  \"a\": [\n    1\n  ]\n}");
  ExpectText(
      "{{ {'b': 1, 'a': 'é'} | tojson(sort_keys=true, ensure_ascii=true, "
      "separators=(',', ':')) }}",
      R"({"a":"\u00e9","b":1})");
  ExpectText("{{ 'a\n\t\"\\\\' | tojson }}", R"("a\n\t\"\\")");
  ExpectRefused(Render("{{ nothing | tojson }}"), absl::StatusCode::kFailedPrecondition,
                "not JSON serializable");
}

TEST(ChatTemplateTest, TellsRefusalsOfTheTemplateFromItsFaults) {
  ExpectRefused(Render("{{ raise_exception('only users, please') }}"),
                absl::StatusCode::kInvalidArgument, "only users, please");
  ExpectRefused(Render("{% macro m() %}{{ raise_exception('deep') }}{% endmacro %}{{ m() }}"),
                absl::StatusCode::kInvalidArgument, "refuses the conversation: deep");
  ExpectRefused(Render("a\n{{ messages[0].x.y }}"), absl::StatusCode::kFailedPrecondition,
                "chat_template:2");
  ExpectRefused(Render("{{ strftime_now('%Q') }}"), absl::StatusCode::kFailedPrecondition, "%Q");
  ExpectRefused(Render("a\n{% if %}"), absl::StatusCode::kInvalidArgument, "chat_template:2");
  ExpectRefused(Render("\xFF"), absl::StatusCode::kInvalidArgument, "not UTF-8");
}

TEST(ChatTemplateTest, IsBoundedInStepsDepthAndText) {
  const absl::StatusCode exhausted = absl::StatusCode::kResourceExhausted;
  ExpectRefused(Render("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}"
                       "{% endfor %}"),
                exhausted, "steps");
  ExpectRefused(Render("{% set ns = namespace(s='12345678') %}{% for i in range(60) %}"
                       "{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
                exhausted, "steps");
  ExpectRefused(Render("{{ 'x' * 50000000 }}"), exhausted, "more than 33554432 bytes");
  ExpectRefused(Render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), exhausted, "recursion");
  ExpectRefused(Render("{% set ns = namespace(l=[]) %}{% for i in range(400) %}"
                       "{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l | tojson }}"),
                absl::StatusCode::kFailedPrecondition, "levels");
  ExpectRefused(Render(std::string(2 << 20, ' ')), absl::StatusCode::kInvalidArgument, "2097152");
  ExpectRefused(Render(std::string(5000, '(').insert(0, "{{")), absl::StatusCode::kInvalidArgument,
                "chat template");
}

TEST(ChatTemplateTest, RefusesBrokenRequestsAndNamesThePart) {
  const std::string source = "{{ messages | length }}";
  const absl::StatusCode invalid = absl::StatusCode::kInvalidArgument;
  ExpectRefused(Render(source, {.messages_json = "[{\"role\": "}), invalid, "messages: ");
  ExpectRefused(Render(source, {.messages_json = "{}"}), invalid, "messages: ");
  ExpectRefused(Render(source, {.messages_json = "[]"}), invalid, "empty");
  ExpectRefused(Render(source, {.messages_json = "[{}, 7]"}), invalid, "entry 1");
  ExpectRefused(Render(source, {.messages_json = "[\"\xFF\"]"}), invalid, "not UTF-8");
  const std::string deep = std::string(100'000, '[');
  ExpectRefused(Render(source, {.messages_json = deep}), invalid, "recursion limit");
  ExpectRefused(Render(source, {.tools_json = "7"}), invalid, "tools: ");
  ExpectRefused(Render(source, {.kwargs_json = "[]"}), invalid, "template arguments: ");
  for (const char* name : {"messages", "tools", "documents", "add_generation_prompt",
                           "continue_final_message", "raise_exception", "strftime_now"}) {
    const std::string kwargs = std::string("{\"") + name + "\": 1}";
    ExpectRefused(Render(source, {.kwargs_json = kwargs}), invalid, name);
  }
  ExpectRefused(Render(source, {.now = "yesterday"}), invalid, "\"yesterday\"");
  EXPECT_FALSE(ChatTemplate::Compile("x", "[").ok());
}

TEST(ChatTemplateTest, ContinuesTheLastMessage) {
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  const std::string messages =
      R"([{"role":"user","content":"hi"},{"role":"assistant","content":"The answer "}])";
  ChatRequest request = {
      .messages_json = messages, .add_generation_prompt = false, .continue_final_message = true};
  EXPECT_EQ(*Render(source, request), "<user>hi</><assistant>The answer ");
  EXPECT_EQ(*Render("{% for m in messages %}{{ m.content | trim }};{% endfor %}", request),
            "hi;The answer");
  ExpectRefused(Render("{{ messages[0].content }}", request), absl::StatusCode::kFailedPrecondition,
                "last message");
  request.add_generation_prompt = true;
  ExpectRefused(Render(source, request), absl::StatusCode::kInvalidArgument, "exclude each other");
  request.add_generation_prompt = false;
  request.messages_json = R"([{"role":"assistant","tool_calls":[]}])";
  ExpectRefused(Render(source, request), absl::StatusCode::kInvalidArgument, "no text to continue");
}

TEST(ChatTemplateTest, ConversationsWithToolsGoToTheirOwnTemplateWhereThereIsOne) {
  const ChatRequest plain = {.messages_json = kHello, .now = kNow};
  const ChatRequest tools = {.messages_json = kHello, .tools_json = "[{}]", .now = kNow};
  const auto both = ChatTemplate::Compile("plain", "", "{{ tools | length }} tools");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(*(*both)->Render(plain), "plain");
  EXPECT_EQ(*(*both)->Render(tools), "1 tools");
  const auto one = ChatTemplate::Compile("plain", "");
  EXPECT_EQ(*(*one)->Render(tools), "plain");
  const absl::Status broken = ChatTemplate::Compile("plain", "", "{% if %}").status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(broken.message()), HasSubstr("for tools: chat template"));
}

TEST(ChatTemplateTest, MessagesArriveAsTransformersGivesThem) {
  const ChatRequest request = {
      .messages_json = R"([{"role":"a","content":null,"thinking":"hm","z":1,"b":2.50}])"};
  EXPECT_EQ(*Render("{{ messages | tojson }}", request),
            R"([{"role": "a", "thinking": "hm", "z": 1, "b": 2.5, "reasoning_content": "hm"}])");
  const ChatRequest kwargs = {.kwargs_json = R"({"flag":true,"bos_token":"B"})"};
  EXPECT_EQ(*Render("{{ flag }}{{ bos_token }}{{ documents }}", kwargs), "TrueBNone");
}

}  // namespace
}  // namespace quire
