#include "server/chat_json.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

#include "server/errors.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;  // the order of keys shows in prompts

constexpr size_t kMaxDepth = 64;
constexpr int kMaxKeys = 1024;  // of an object: each new one is compared with all before

// What `text` would cost whoever reads it, before anything is made of it. Empty: not too much.
std::string FindExcess(absl::string_view text) {
  std::vector<int> num_commas;  // of the containers that are open
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (num_commas.size() == kMaxDepth)
        return absl::StrCat("is nested more than ", kMaxDepth, " deep");
      num_commas.push_back(c == '{' ? 0 : std::numeric_limits<int>::min());
    } else if ((c == ']' || c == '}') && !num_commas.empty()) {
      num_commas.pop_back();
    } else if (c == ',' && !num_commas.empty() && ++num_commas.back() == kMaxKeys) {
      return absl::StrCat("has an object with more than ", kMaxKeys, " keys");
    }
  }
  return "";
}

absl::StatusOr<Json> Parse(absl::string_view text, absl::string_view field) {
  if (const std::string excess = FindExcess(text); !excess.empty()) {
    return InvalidField(field, excess);
  }
  Json value = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return InvalidField(field, "is not JSON");
  return value;
}

absl::StatusOr<Json> ParseObjects(absl::string_view text, absl::string_view field) {
  absl::StatusOr<Json> list = Parse(text, field);
  if (!list.ok()) return list;
  if (!list->is_array()) return InvalidField(field, "is not a JSON list of objects");
  for (size_t i = 0; i < list->size(); ++i) {
    if (!(*list)[i].is_object()) {
      return InvalidField(field, absl::StrCat("entry ", i, " is not a JSON object"));
    }
  }
  return list;
}

// {"function": {"arguments": "{...}"}} -> {"function": {"arguments": {...}}}
absl::Status UnpackArguments(Json& call, absl::string_view field) {
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object()) return absl::OkStatus();
  const auto arguments = function->find("arguments");
  if (arguments == function->end() || !arguments->is_string()) return absl::OkStatus();
  const std::string text = arguments->get<std::string>();
  if (text.empty()) {
    *arguments = Json::object();
    return absl::OkStatus();
  }
  absl::StatusOr<Json> value = Parse(text, field);
  if (!value.ok()) {
    return InvalidField(field, absl::StrCat("function.arguments: ", value.status().message()));
  }
  *arguments = *std::move(value);
  return absl::OkStatus();
}

absl::StatusOr<Json> ToolCalls(absl::string_view text, const std::string& field) {
  absl::StatusOr<Json> calls = ParseObjects(text, field);
  if (!calls.ok()) return calls;
  for (Json& call : *calls) {
    if (absl::Status status = UnpackArguments(call, field); !status.ok()) return status;
  }
  return calls;
}

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<std::string> MessagesJson(const v1::Chat& chat) {
  Json messages = Json::array();
  for (int i = 0; i < chat.messages_size(); ++i) {
    const v1::Message& message = chat.messages(i);
    Json one = {{"role", message.role()}, {"content", message.content()}};
    if (!message.name().empty()) one["name"] = message.name();
    if (!message.tool_call_id().empty()) one["tool_call_id"] = message.tool_call_id();
    if (!message.reasoning_content().empty()) {
      one["reasoning_content"] = message.reasoning_content();
    }
    if (!message.tool_calls_json().empty()) {
      absl::StatusOr<Json> calls = ToolCalls(
          message.tool_calls_json(), absl::StrCat("chat.messages[", i, "].tool_calls_json"));
      if (!calls.ok()) return calls.status();
      one["tool_calls"] = *std::move(calls);
    }
    messages.push_back(std::move(one));
  }
  return Dump(messages);
}

absl::StatusOr<std::string> ToolsJson(const v1::Chat& chat) {
  if (chat.tools_json().empty()) return std::string();
  const absl::StatusOr<Json> tools = ParseObjects(chat.tools_json(), "chat.tools_json");
  if (!tools.ok()) return tools.status();
  return tools->empty() ? std::string() : Dump(*tools);
}

}  // namespace quire
