#include "server/prompt.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include <google/protobuf/util/json_util.h>
#include <nlohmann/json.hpp>

#include "server/errors.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

// Errors of server/text have no reasons of ours.
absl::Status FromText(const absl::Status& status, absl::string_view field) {
  if (status.code() == absl::StatusCode::kInvalidArgument) {
    return InvalidField(field, status.message());
  }
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    return MakeError(status.code(), "CHAT_TEMPLATE_LIMIT", status.message());
  }
  return MakeError(status.code(), "CHAT_TEMPLATE_FAILED", status.message());
}

std::string MessagesJson(const v1::Chat& chat) {
  Json messages = Json::array();
  for (const v1::Message& message : chat.messages()) {
    Json one = {{"role", message.role()}, {"content", message.content()}};
    if (!message.name().empty()) one["name"] = message.name();
    messages.push_back(std::move(one));
  }
  return messages.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status CheckFits(absl::string_view prompt, const ModelText& text, int32_t max_model_len) {
  const int64_t max_bytes = max_model_len * text.max_token_bytes();
  if (static_cast<int64_t>(prompt.size()) <= max_bytes) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument, "CONTEXT_LENGTH_EXCEEDED",
      absl::StrCat("a prompt of ", prompt.size(), " bytes; the context of ", max_model_len,
                   " tokens holds at most ", max_bytes, "; shorten the prompt"),
      {{"limit", absl::StrCat(max_model_len)},
       {"prompt_bytes", absl::StrCat(prompt.size())},
       {"max_prompt_bytes", absl::StrCat(max_bytes)}});
}

}  // namespace

absl::StatusOr<std::string> RenderChat(const v1::Chat& chat, const ModelText& text) {
  std::string kwargs_json;
  if (chat.has_template_args()) {
    const auto status =
        google::protobuf::util::MessageToJsonString(chat.template_args(), &kwargs_json);
    if (!status.ok()) {
      return InvalidField("chat.template_args",
                          "cannot be written as JSON; numbers must be finite");
    }
  }
  const std::string messages_json = MessagesJson(chat);
  ChatRequest request;
  request.messages_json = messages_json;
  request.kwargs_json = kwargs_json;
  request.add_generation_prompt = !chat.has_add_generation_prompt() || chat.add_generation_prompt();
  absl::StatusOr<std::string> rendered = text.chat_template()->Render(request);
  if (!rendered.ok()) return FromText(rendered.status(), "chat");
  return rendered;
}

absl::StatusOr<std::vector<int32_t>> TokenizePrompt(const v1::GenerateRequest& request,
                                                    const ModelText* text, int32_t max_model_len) {
  if (request.has_token_ids()) {
    return std::vector<int32_t>(request.token_ids().ids().begin(), request.token_ids().ids().end());
  }
  std::string rendered;
  absl::string_view prompt = request.text();
  EncodeOptions options;
  if (request.has_chat()) {
    absl::StatusOr<std::string> chat = RenderChat(request.chat(), *text);
    if (!chat.ok()) return chat.status();
    rendered = *std::move(chat);
    prompt = rendered;
    options.add_special = false;  // the template writes its own
  } else if (request.has_add_special_tokens()) {
    options.add_special = request.add_special_tokens();
  }
  if (absl::Status fits = CheckFits(prompt, *text, max_model_len); !fits.ok()) return fits;
  const char* field = request.has_chat() ? "chat" : "text";
  absl::StatusOr<std::vector<int32_t>> ids = text->tokenizer().Encode(prompt, options);
  if (!ids.ok()) return FromText(ids.status(), field);
  if (ids->empty()) return InvalidField(field, "comes to no tokens; give a prompt");
  return ids;
}

}  // namespace quire
