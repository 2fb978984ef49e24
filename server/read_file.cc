#include "server/read_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace quire {

absl::StatusOr<std::string> ReadFile(absl::string_view subject, const std::string& path,
                                     size_t max_bytes) {
  const auto wrong = [&](absl::string_view what) {
    return absl::FailedPreconditionError(absl::StrCat(subject, " ", path, ": ", what));
  };
  // O_NONBLOCK: opening a pipe would wait for somebody to write.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return wrong(std::strerror(errno));
  const absl::Cleanup closer = [fd] { close(fd); };
  struct stat info = {};
  if (fstat(fd, &info) != 0) return wrong(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return wrong("is not a regular file");
  std::string text(max_bytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return wrong(std::strerror(errno));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > max_bytes) return wrong(absl::StrCat("is larger than ", max_bytes, " bytes"));
  text.resize(size);
  return text;
}

}  // namespace quire
