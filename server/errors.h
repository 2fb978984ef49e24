#ifndef QUIRE_SERVER_ERRORS_H_
#define QUIRE_SERVER_ERRORS_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "scheduler/step_plan.h"

namespace quire {

// Errors on their way to a client are absl statuses whose message begins with the reason, a stable
// word in upper case: "QUEUE_FULL: 512 requests wait, the limit is 512". The numbers ride along as
// metadata, wrong fields as violations; grpc_status.h makes the client's status of all three.
using ErrorMetadata = std::vector<std::pair<std::string, std::string>>;

absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                       const ErrorMetadata& metadata = {});

// INVALID_ARGUMENT INVALID_FIELD about one field; `field` is a path such as "params.top_p".
absl::Status InvalidField(absl::string_view field, absl::string_view what);

// A further field of a status made by InvalidField.
void AddViolation(absl::Status& status, absl::string_view field, absl::string_view what);

// No effect on OK. A key that is there keeps its value.
void AddMetadata(absl::Status& status, absl::string_view key, absl::string_view value);

// The word before the colon; where there is none, the name of the code.
std::string ReasonOf(const absl::Status& status);
std::map<std::string, std::string> MetadataOf(const absl::Status& status);
std::vector<std::pair<std::string, std::string>> ViolationsOf(const absl::Status& status);

// How long a client should wait before it tries again, where that makes sense at all.
std::optional<int64_t> RetryDelayMs(const absl::Status& status);

// How a sequence's end looks to its client: OK for the ends that have a finish reason. A failed
// engine is UNAVAILABLE, so that clients try again elsewhere, as long as nothing was sent.
absl::Status StatusOfEnd(const EndedSequence& end);

}  // namespace quire

#endif  // QUIRE_SERVER_ERRORS_H_
