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

absl::Status SetMessages(const std::string& file, GenerateRequest* request) {
  absl::StatusOr<std::string> text = ReadText(file);
  if (!text.ok()) return text.status();
  absl::StatusOr<Json> parsed = ParseJson(*text);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is ", parsed.status().message()));
  }
  Json chat = *std::move(parsed);
  if (chat.is_array()) chat = Json{{"messages", std::move(chat)}};
  if (!chat.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": expected a JSON list of messages, or an object with `messages`"));
  }
  absl::Status status = ParseProtobufJson(OneLine(chat), request->mutable_chat());
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", status.message()));
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
    } else if (name == "messages") {
      full["chat"]["messages"] = value;
    } else if (name == "params" && value.is_object()) {
      full["params"].update(value);
    } else if (!request->FindFieldByName(name) && params->FindFieldByName(name)) {
      full["params"][name] = value;
    } else {
      full[name] = value;
    }
  }
  return full;
}

}  // namespace

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
  // A list replaces that of the flags instead of going on with it.
  if (parsed.params().stop_token_ids_size() > 0) {
    request->mutable_params()->clear_stop_token_ids();
  }
  request->MergeFrom(parsed);
  return std::nullopt;
}

}  // namespace quire::cli
