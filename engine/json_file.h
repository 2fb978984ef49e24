#ifndef QUIRE_ENGINE_JSON_FILE_H_
#define QUIRE_ENGINE_JSON_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace quire {

// Parses JSON that nobody vouches for: no duplicate keys, at most 64 levels and 2^20 values, valid
// UTF-8. `where` names the text in errors.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view where);

// The same, from a file of at most 64 MiB. The top level must be an object.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path);

}  // namespace quire

#endif  // QUIRE_ENGINE_JSON_FILE_H_
