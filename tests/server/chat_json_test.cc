#include "server/chat_json.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/errors.h"

namespace quire {
namespace {

using testing::HasSubstr;

v1::Message* AddMessage(v1::Chat& chat, const std::string& role, const std::string& content) {
  v1::Message* message = chat.add_messages();
  message->set_role(role);
  message->set_content(content);
  return message;
}

TEST(ChatJsonTest, MessagesHaveWhatTemplatesKnow) {
  v1::Chat chat;
  AddMessage(chat, "user", "wie \"spät\"?")->set_name("Zoe");
  v1::Message* call = AddMessage(chat, "assistant", "");
  call->set_reasoning_content("a clock");
  // OpenAI's arguments are a text, and may be an object; some calls have none.
  call->set_tool_calls_json(
      R"([{"id":"c1","type":"function",)"
      R"("function":{"name":"time","arguments":"{\"zone\": \"CET\"}"}},)"
      R"({"function":{"name":"b","arguments":{"x":1}}},{"function":{"name":"c","arguments":""}}])");
  AddMessage(chat, "tool", "12:00")->set_tool_call_id("c1");
  const auto json = MessagesJson(chat);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(
      *json,
      R"([{"role":"user","content":"wie \"spät\"?","name":"Zoe"},)"
      R"({"role":"assistant","content":"","reasoning_content":"a clock","tool_calls":[)"
      R"({"id":"c1","type":"function","function":{"name":"time","arguments":{"zone":"CET"}}},)"
      R"({"function":{"name":"b","arguments":{"x":1}}},)"
      R"({"function":{"name":"c","arguments":{}}}]},)"
      R"({"role":"tool","content":"12:00","tool_call_id":"c1"}])");
}

TEST(ChatJsonTest, ToolsKeepTheOrderOfTheirKeys) {
  v1::Chat chat;
  EXPECT_EQ(*ToolsJson(chat), "");
  chat.set_tools_json("[]");
  EXPECT_EQ(*ToolsJson(chat), "") << "no tools";
  chat.set_tools_json(R"( [{"type": "function", "function": {"name": "f", "a": 1}}] )");
  EXPECT_EQ(*ToolsJson(chat), R"([{"type":"function","function":{"name":"f","a":1}}])");
}

TEST(ChatJsonTest, WhatIsNoListOfObjectsIsRefusedByName) {
  const std::string deep(65, '[');
  std::string many = "[{\"k\":{";
  for (int i = 0; i < 1025; ++i) absl::StrAppend(&many, "\"", i, "\":1,");
  many.back() = '}';
  many += "}]";
  struct Case {
    std::string text, part;
  };
  const Case cases[] = {{"{}", "list"},      {"[1]", "entry 0"},  {"[{}, []]", "entry 1"},
                        {"[{}", "not JSON"}, {"null", "list"},    {"[{\"a\":1e999}]", "not JSON"},
                        {deep, "64 deep"},   {many, "1024 keys"}, {" ", "not JSON"}};
  for (const Case& one : cases) {
    v1::Chat chat;
    chat.set_tools_json(one.text);
    const absl::Status tools = ToolsJson(chat).status();
    EXPECT_EQ(ReasonOf(tools), "INVALID_FIELD") << one.text;
    EXPECT_THAT(std::string(tools.message()), HasSubstr("chat.tools_json"));
    EXPECT_THAT(std::string(tools.message()), HasSubstr(one.part));
    AddMessage(chat, "user", "x");
    AddMessage(chat, "assistant", "")->set_tool_calls_json(one.text);
    const absl::Status calls = MessagesJson(chat).status();
    EXPECT_THAT(std::string(calls.message()), HasSubstr("chat.messages[1].tool_calls_json"));
    EXPECT_THAT(std::string(calls.message()), HasSubstr(one.part));
  }
  v1::Chat chat;
  AddMessage(chat, "assistant", "")
      ->set_tool_calls_json(R"([{"function":{"name":"f","arguments":"{no json"}}])");
  EXPECT_THAT(std::string(MessagesJson(chat).status().message()),
              HasSubstr("function.arguments: "));
  // As deep as allowed, and brackets in texts do not count.
  chat.set_tools_json("[{\"a\":" + std::string(62, '[') + "\"[[[\\\"[[\"" + std::string(62, ']') +
                      "}]");
  EXPECT_TRUE(ToolsJson(chat).ok()) << ToolsJson(chat).status();
}

}  // namespace
}  // namespace quire
