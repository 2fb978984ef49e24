#ifndef QUIRE_SERVER_READ_FILE_H_
#define QUIRE_SERVER_READ_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

// All of a file that an operator names and that is read again when it changes. FAILED_PRECONDITION
// where it cannot be read, is larger than `max_bytes`, or is no regular file: reading a pipe may
// never end. `subject` begins the message: "--tls-key".
absl::StatusOr<std::string> ReadFile(absl::string_view subject, const std::string& path,
                                     size_t max_bytes);

}  // namespace quire

#endif  // QUIRE_SERVER_READ_FILE_H_
