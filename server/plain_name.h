#ifndef QUIRE_SERVER_PLAIN_NAME_H_
#define QUIRE_SERVER_PLAIN_NAME_H_

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace quire {

// Whether a text may be a name in logs and metadata: 1 to `max_bytes` of [A-Za-z0-9._-].
inline bool IsPlainName(absl::string_view text, size_t max_bytes) {
  return !text.empty() && text.size() <= max_bytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace quire

#endif  // QUIRE_SERVER_PLAIN_NAME_H_
