#include "server/cli/report.h"

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "server/errors.h"

namespace quire::cli {

ExitCode Fail(ExitCode code, absl::string_view message) {
  const std::string line = absl::StrReplaceAll(message, {{"\n", " "}});
  std::fprintf(stderr, "quire: %s\n", line.c_str());
  return code;
}

ExitCode LoadExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return ExitCode::kResources;
    case absl::StatusCode::kFailedPrecondition:
      return ExitCode::kUsage;
    case absl::StatusCode::kInternal:
      return ExitCode::kInternal;
    default:
      return ExitCode::kModelFiles;
  }
}

const char* RemedyForFiles(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kNotFound:
      return "give a folder in Hugging Face format, or a .gguf file, with all of its parts";
    case absl::StatusCode::kUnimplemented:
      return "serve another model or another form of this one; `quire inspect` says what a file is";
    default:
      return "a file is damaged, or not of this model: get it again, and compare its checksum";
  }
}

ExitCode FailToLoad(const absl::Status& status) {
  const ExitCode code = Fail(LoadExitCode(status), status.message());
  if (code == ExitCode::kModelFiles) {
    std::fprintf(stderr, "quire: %s\n", RemedyForFiles(status.code()));
  }
  return code;
}

Json ToJson(const Failure& failure) {
  return {{"error",
           {{"code", failure.code},
            {"reason", failure.reason},
            {"message", failure.message},
            {"metadata", failure.metadata}}}};
}

Failure ToFailure(const absl::Status& status, absl::string_view reason) {
  return {.code = absl::StatusCodeToString(status.code()),
          .reason = std::string(reason),
          .message = std::string(status.message())};
}

Failure ToFailureWithReason(const absl::Status& status) {
  Failure failure = ToFailure(status, ReasonOf(status));
  const std::string prefix = failure.reason + ": ";
  if (absl::StartsWith(failure.message, prefix)) failure.message.erase(0, prefix.size());
  failure.metadata = MetadataOf(status);
  return failure;
}

absl::StatusOr<Json> ParseJson(const std::string& text) {
  constexpr int kMaxDepth = 128;
  bool too_deep = false;
  const auto is_shallow = [&too_deep](int depth, Json::parse_event_t event, const Json&) {
    const bool opens =
        event == Json::parse_event_t::array_start || event == Json::parse_event_t::object_start;
    too_deep |= opens && depth >= kMaxDepth;
    return !too_deep;
  };
  Json value = Json::parse(text, is_shallow, /*allow_exceptions=*/false);
  if (too_deep) {
    return absl::InvalidArgumentError(absl::StrCat("JSON nested deeper than ", kMaxDepth));
  }
  if (value.is_discarded()) return absl::InvalidArgumentError("not JSON in UTF-8");
  return value;
}

std::string OneLine(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace quire::cli
