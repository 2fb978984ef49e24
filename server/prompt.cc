#include "server/prompt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include <google/protobuf/util/json_util.h>

#include "server/chat_json.h"
#include "server/errors.h"

namespace quire {
namespace {

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

absl::StatusOr<std::vector<int32_t>> TokenizeAll(const v1::GenerateRequest& request,
                                                 const ModelText* text, const ModelInfo& info) {
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
  const bool is_truncated = request.params().has_truncate_prompt_tokens();
  if (!is_truncated) {
    if (absl::Status fits = CheckFits(prompt, *text, info.max_model_len); !fits.ok()) return fits;
  }
  const char* field = request.has_chat() ? "chat" : "text";
  absl::StatusOr<std::vector<int32_t>> ids = text->tokenizer().Encode(prompt, options);
  if (!ids.ok()) return FromText(ids.status(), field);
  if (ids->empty()) return InvalidField(field, "comes to no tokens; give a prompt");
  for (const int32_t id : *ids) {
    if (id < info.vocab_size) continue;
    return InvalidField(field, absl::StrCat("comes to the token ", id, ", which the model's ",
                                            info.vocab_size, " tokens do not include"));
  }
  return ids;
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
  const absl::StatusOr<std::string> messages_json = MessagesJson(chat);
  if (!messages_json.ok()) return messages_json.status();
  const absl::StatusOr<std::string> tools_json = ToolsJson(chat);
  if (!tools_json.ok()) return tools_json.status();
  ChatRequest request;
  request.messages_json = *messages_json;
  request.tools_json = *tools_json;
  request.kwargs_json = kwargs_json;
  request.continue_final_message = chat.continue_final_message();
  request.add_generation_prompt = chat.has_add_generation_prompt() ? chat.add_generation_prompt()
                                                                   : !chat.continue_final_message();
  absl::StatusOr<std::string> rendered = text.chat_template()->Render(request);
  if (!rendered.ok()) return FromText(rendered.status(), "chat");
  return rendered;
}

absl::StatusOr<std::vector<int32_t>> TokenizePrompt(const v1::GenerateRequest& request,
                                                    const ModelText* text, const ModelInfo& info) {
  absl::StatusOr<std::vector<int32_t>> ids = TokenizeAll(request, text, info);
  if (!ids.ok() || !request.params().has_truncate_prompt_tokens()) return ids;
  const size_t kept = std::min<size_t>(request.params().truncate_prompt_tokens(), ids->size());
  ids->erase(ids->begin(), ids->end() - static_cast<ptrdiff_t>(kept));
  return ids;
}

}  // namespace quire
