#include "server/cli/prompt_source.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <google/protobuf/util/json_util.h>

#include "server/cli/read_text.h"

namespace quire::cli {
namespace {

using v1::GenerateRequest;

absl::Status ParseProtobufJson(const std::string& text, google::protobuf::Message* message) {
  const auto status = google::protobuf::util::JsonStringToMessage(text, message);
  if (status.ok()) return absl::OkStatus();
  const auto what = status.message();
  return absl::InvalidArgumentError(absl::string_view(what.data(), what.size()));
}

// OpenAI's content: null, or parts of which those with text are understood.
void FlattenContent(Json& content) {
  if (content.is_null()) content = "";
  if (!content.is_array()) return;
  std::string joined;
  for (const Json& part : content) {
    const auto text = part.is_object() ? part.find("text") : part.end();
    // Anything else stays, and is refused as no text.
    if (!part.is_object() || text == part.end() || !text->is_string()) return;
    joined += text->get<std::string>();
  }
  content = joined;
}

// A member under a new name, as text.
void RenameAsText(Json& object, const char* from, const char* to) {
  const auto found = object.find(from);
  if (found == object.end()) return;
  const std::string text = found->is_null() ? "" : OneLine(*found);
  object.erase(found);
  object[to] = text;
}

// A Chat as the .proto files have it, from one that may be written as OpenAI does.
void RewriteChat(Json& chat) {
  if (!chat.is_object()) return;
  RenameAsText(chat, "tools", "tools_json");
  const auto messages = chat.find("messages");
  if (messages == chat.end() || !messages->is_array()) return;
  for (Json& message : *messages) {
    if (!message.is_object()) continue;
    RenameAsText(message, "tool_calls", "tool_calls_json");
    if (const auto content = message.find("content"); content != message.end()) {
      FlattenContent(*content);
    }
  }
}

absl::StatusOr<Json> ReadJson(const std::string& file) {
  absl::StatusOr<std::string> text = ReadText(file);
  if (!text.ok()) return text.status();
  absl::StatusOr<Json> parsed = ParseJson(*text);
  if (parsed.ok()) return parsed;
  return absl::InvalidArgumentError(absl::StrCat(file, " is ", parsed.status().message()));
}

absl::Status SetMessages(const std::string& file, GenerateRequest* request) {
  absl::StatusOr<Json> parsed = ReadJson(file);
  if (!parsed.ok()) return parsed.status();
  Json chat = *std::move(parsed);
  if (chat.is_array()) chat = Json{{"messages", std::move(chat)}};
  if (!chat.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": expected a JSON list of messages, or an object with `messages`"));
  }
  RewriteChat(chat);
  v1::Chat from_file;
  absl::Status status = ParseProtobufJson(OneLine(chat), &from_file);
  if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat(file, ": ", status.message()));
  // What flags say wins.
  from_file.MergeFrom(request->chat());
  *request->mutable_chat() = std::move(from_file);
  return absl::OkStatus();
}

void SetIds(const std::vector<int32_t>& ids, GenerateRequest* request) {
  // A negative id becomes one that no vocabulary has, and the server says so.
  for (int32_t id : ids) request->mutable_token_ids()->add_ids(static_cast<uint32_t>(id));
}

absl::Status SetText(const std::string& file, GenerateRequest* request) {
  absl::StatusOr<std::string> text = ReadText(file);
  if (!text.ok()) return text.status();
  request->set_text(*std::move(text));
  return absl::OkStatus();
}

bool IsOfChat(const std::string& name) {
  return name == "messages" || name == "tools" ||
         v1::Chat::descriptor()->FindFieldByName(name) != nullptr;
}

// The short forms of a batch line, rewritten as the .proto files have them.
Json InFull(const Json& line) {
  const auto* params = v1::GenerationParams::descriptor();
  const auto* request = GenerateRequest::descriptor();
  Json full = Json::object();
  for (const auto& [name, value] : line.items()) {
    const bool is_ids = name == "prompt_ids" || name == "prompt" || name == "token_ids";
    if (is_ids && value.is_array()) {
      full["token_ids"]["ids"] = value;
    } else if (name == "prompt") {
      full["text"] = value;
    } else if (IsOfChat(name)) {
      full["chat"][name] = value;
    } else if (name == "chat" && value.is_object()) {
      full["chat"].update(value);
    } else if (name == "params" && value.is_object()) {
      full["params"].update(value);
    } else if (!request->FindFieldByName(name) && params->FindFieldByName(name)) {
      full["params"][name] = value;
    } else {
      full[name] = value;
    }
  }
  if (const auto chat = full.find("chat"); chat != full.end()) RewriteChat(*chat);
  return full;
}

// A list or map of `line` replaces that of `params` instead of going on with it.
void ClearReplaced(const v1::GenerationParams& line, v1::GenerationParams* params) {
  const auto& type = *v1::GenerationParams::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type.field(i);
    if (field->is_repeated() && line.GetReflection()->FieldSize(line, field) > 0) {
      params->GetReflection()->ClearField(params, field);
    }
  }
}

}  // namespace

absl::Status SetChatOptions(const ChatOptions& options, v1::Chat* chat) {
  if (options.add_generation_prompt)
    chat->set_add_generation_prompt(*options.add_generation_prompt);
  if (options.continue_final_message) chat->set_continue_final_message(true);
  if (!options.tools_file.empty()) {
    absl::StatusOr<Json> tools = ReadJson(options.tools_file);
    if (!tools.ok()) return tools.status();
    chat->set_tools_json(OneLine(*tools));
  }
  if (options.template_args.empty()) return absl::OkStatus();
  absl::Status status = ParseProtobufJson(options.template_args, chat->mutable_template_args());
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("--template-args ", options.template_args, ": ", status.message()));
}

absl::Status SetPrompt(const PromptSource& source, GenerateRequest* request) {
  const int num_sources = source.text.has_value() + !source.file.empty() + !source.ids.empty() +
                          !source.messages_file.empty();
  if (num_sources > 1) {
    return absl::InvalidArgumentError(
        "give one prompt: an argument, --file, --prompt-ids or --messages");
  }
  if (source.text) {
    request->set_text(*source.text);
    return absl::OkStatus();
  }
  if (!source.ids.empty()) {
    SetIds(source.ids, request);
    return absl::OkStatus();
  }
  if (!source.messages_file.empty()) return SetMessages(source.messages_file, request);
  if (!source.file.empty()) return SetText(source.file, request);
  if (isatty(STDIN_FILENO)) {
    return absl::InvalidArgumentError(
        "no prompt: give it as an argument, by --file, --prompt-ids or --messages, or on stdin");
  }
  return SetText("-", request);
}

std::optional<Failure> MergeRequestLine(const Json& line, GenerateRequest* request) {
  if (!line.is_object()) {
    return Failure{.code = "INVALID_ARGUMENT",
                   .reason = "INVALID_FIELD",
                   .message = "expected a JSON object, a GenerateRequest"};
  }
  GenerateRequest parsed;
  absl::Status status = ParseProtobufJson(OneLine(InFull(line)), &parsed);
  if (!status.ok()) {
    const bool unknown = absl::StrContains(status.message(), "Cannot find field");
    return ToFailure(status, unknown ? "UNKNOWN_FIELD" : "INVALID_FIELD");
  }
  ClearReplaced(parsed.params(), request->mutable_params());
  request->MergeFrom(parsed);
  return std::nullopt;
}

}  // namespace quire::cli
