#ifndef QUIRE_SERVER_STRICT_JSON_H_
#define QUIRE_SERVER_STRICT_JSON_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace quire {

// An operator's JSON, where a slip must not pass: INVALID_ARGUMENT for what is no JSON, for a key
// that an object has twice, of which JSON would take the last, and for values nested deeper than
// `max_depth`. O(text).
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text, size_t max_depth);

}  // namespace quire

#endif  // QUIRE_SERVER_STRICT_JSON_H_
