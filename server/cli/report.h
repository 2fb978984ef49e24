#ifndef QUIRE_SERVER_CLI_REPORT_H_
#define QUIRE_SERVER_CLI_REPORT_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

#include "server/cli/exit_code.h"

namespace quire::cli {

// Objects keep the order of their keys: of what users wrote, and of what we write.
using Json = nlohmann::ordered_json;

// Prints "quire: <message>" to stderr as one line, and returns `code`.
ExitCode Fail(ExitCode code, absl::string_view message);

// What a status of Engine::Load means: memory and devices (kResources), flags that contradict the
// model (kUsage), a bug (kInternal), else the model's files.
ExitCode LoadExitCode(const absl::Status& status);

// What to do about files that cannot be loaded, for the code of a status of Engine::Load.
const char* RemedyForFiles(absl::StatusCode code);

// Fail with that code and the status's message.
ExitCode FailToLoad(const absl::Status& status);

// A failed request or line, as `--json` and the bulk commands show it.
struct Failure {
  std::string code = "";    // the gRPC code's name: "INVALID_ARGUMENT"
  std::string reason = "";  // of ErrorInfo; may be empty
  std::string message = "";
  std::map<std::string, std::string> metadata = {};
};

// {"error": {code, reason, message, metadata}}.
Json ToJson(const Failure& failure);

// The failure that a Status is: its code by the name gRPC gives it.
Failure ToFailure(const absl::Status& status, absl::string_view reason);

// The same for a status that carries reason and metadata as server/errors.h says.
Failure ToFailureWithReason(const absl::Status& status);

// Text from a user. At most 128 lists and objects within each other, so that what walks the value
// may recurse. The message says what the text is instead: "not JSON in UTF-8".
absl::StatusOr<Json> ParseJson(const std::string& text);

// One line, without an end of line; bytes that are not UTF-8 become U+FFFD.
std::string OneLine(const Json& value);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_REPORT_H_
