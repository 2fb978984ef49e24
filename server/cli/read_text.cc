#include "server/cli/read_text.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"

namespace quire::cli {

absl::StatusOr<std::string> ReadText(const std::string& path) {
  constexpr size_t kMostBytes = 64 << 20;
  std::ifstream file;
  if (path != "-") {
    errno = 0;
    file.open(path, std::ios::binary);
    if (!file) {
      return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
    }
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text;
  char buffer[1 << 16];
  while (in.read(buffer, sizeof(buffer)), in.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(in.gcount()));
    if (text.size() > kMostBytes) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is larger than 64 MiB"));
    }
  }
  if (in.bad()) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  return text;
}

}  // namespace quire::cli
