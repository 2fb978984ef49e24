#ifndef QUIRE_SERVER_CLI_READ_TEXT_H_
#define QUIRE_SERVER_CLI_READ_TEXT_H_

#include <string>

#include "absl/status/statusor.h"

namespace quire::cli {

// A whole text file of at most 64 MiB; "-" is stdin. Errors name the file.
absl::StatusOr<std::string> ReadText(const std::string& path);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_READ_TEXT_H_
