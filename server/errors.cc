#include "server/errors.h"

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace quire {
namespace {

constexpr absl::string_view kMetadata = "quire/metadata/";
constexpr absl::string_view kViolation = "quire/violation/";

bool IsReason(absl::string_view word) {
  if (word.empty()) return false;
  for (char c : word) {
    if (!(c >= 'A' && c <= 'Z') && c != '_') return false;
  }
  return true;
}

std::vector<std::pair<std::string, std::string>> PayloadsOf(const absl::Status& status,
                                                            absl::string_view prefix) {
  std::vector<std::pair<std::string, std::string>> found;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& value) {
    if (absl::ConsumePrefix(&url, prefix)) found.emplace_back(url, std::string(value));
  });
  return found;
}

}  // namespace

absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                       const ErrorMetadata& metadata) {
  absl::Status status(code, absl::StrCat(reason, ": ", message));
  for (const auto& [key, value] : metadata) AddMetadata(status, key, value);
  return status;
}

absl::Status InvalidField(absl::string_view field, absl::string_view what) {
  absl::Status status = MakeError(absl::StatusCode::kInvalidArgument, "INVALID_FIELD",
                                  absl::StrCat(field, ": ", what));
  AddViolation(status, field, what);
  return status;
}

void AddViolation(absl::Status& status, absl::string_view field, absl::string_view what) {
  status.SetPayload(absl::StrCat(kViolation, field), absl::Cord(what));
}

void AddMetadata(absl::Status& status, absl::string_view key, absl::string_view value) {
  const std::string url = absl::StrCat(kMetadata, key);
  if (!status.GetPayload(url)) status.SetPayload(url, absl::Cord(value));
}

std::string ReasonOf(const absl::Status& status) {
  const absl::string_view message = status.message();
  const absl::string_view word = message.substr(0, message.find(':'));
  if (word.size() < message.size() && IsReason(word)) return std::string(word);
  return absl::StatusCodeToString(status.code());
}

std::map<std::string, std::string> MetadataOf(const absl::Status& status) {
  const auto payloads = PayloadsOf(status, kMetadata);
  return {payloads.begin(), payloads.end()};
}

std::vector<std::pair<std::string, std::string>> ViolationsOf(const absl::Status& status) {
  return PayloadsOf(status, kViolation);
}

std::optional<int64_t> RetryDelayMs(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (reason == "QUEUE_FULL" || reason == "QUEUE_TIMEOUT") return 1000;
  if (reason == "TENANT_QUOTA") {
    int64_t delay_ms = 0;
    return absl::SimpleAtoi(MetadataOf(status)["retry_after_ms"], &delay_ms) ? delay_ms : 1000;
  }
  if (reason == "MODEL_LOADING" || reason == "DRAINING" || reason == "ENGINE_RESTARTING") {
    return 2000;
  }
  return std::nullopt;
}

absl::Status StatusOfEnd(const EndedSequence& end) {
  using absl::StatusCode;
  switch (end.reason) {
    case EndReason::kStop:
    case EndReason::kLength:
    case EndReason::kAborted:
    case EndReason::kTimeLimit:
      return absl::OkStatus();
    case EndReason::kCancelled:
      return MakeError(StatusCode::kCancelled, "CANCELLED", "the client cancelled the call");
    case EndReason::kDeadline:
      return MakeError(StatusCode::kDeadlineExceeded, "DEADLINE_EXCEEDED",
                       "the deadline of the call passed before the generation was over");
    case EndReason::kQueueTimeout:
      return MakeError(StatusCode::kResourceExhausted, "QUEUE_TIMEOUT",
                       "the request waited for its first step longer than max_queue_ms allows");
    case EndReason::kSlowConsumer:
      return MakeError(StatusCode::kResourceExhausted, "SLOW_CONSUMER",
                       "the client did not read for longer than --slow-reader-timeout allows");
    case EndReason::kDraining:
      return MakeError(StatusCode::kUnavailable, "DRAINING",
                       "the server shuts down; send the request to another one");
    case EndReason::kNumericalFault:
      return MakeError(StatusCode::kInternal, "NUMERICAL_FAULT",
                       "the model computed a value that is not finite");
    case EndReason::kNoTokenAllowed:
      return MakeError(StatusCode::kInvalidArgument, "NO_TOKEN_ALLOWED",
                       "the request's own logit_bias, allowed_token_ids, bad_words and min_tokens "
                       "leave no token to draw; relax one of them");
    case EndReason::kEngineFailed:
      if (end.completion_tokens == 0) {
        return MakeError(StatusCode::kUnavailable, "ENGINE_RESTARTING",
                         "the engine failed before the first token; try again");
      }
      return MakeError(StatusCode::kInternal, "ENGINE_FAILED", "the engine failed in this step");
  }
  return MakeError(StatusCode::kInternal, "INTERNAL", "an end without a reason");
}

}  // namespace quire
