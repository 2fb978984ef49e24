#include "engine/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "absl/base/config.h"
#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace quire {
namespace {

// The rest of a mapping's last page can be read, and is zeros. AddressSanitizer is told that it is
// not part of the file.
void SetBeyondReadable([[maybe_unused]] const std::byte* data, [[maybe_unused]] size_t size,
                       [[maybe_unused]] bool readable) {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t num_beyond = (page - size % page) % page;
  if (readable) {
    ASAN_UNPOISON_MEMORY_REGION(data + size, num_beyond);
  } else {
    ASAN_POISON_MEMORY_REGION(data + size, num_beyond);
  }
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot open"));
  }
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot stat"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  if (info.st_size <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the file is empty"));
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot map ", size, " bytes"));
  }
  const auto* bytes = static_cast<const std::byte*>(data);
  SetBeyondReadable(bytes, size, false);
  return std::unique_ptr<MappedFile>(new MappedFile(path, bytes, size));
}

MappedFile::~MappedFile() {
  SetBeyondReadable(data_, size_, true);
  munmap(const_cast<std::byte*>(data_), size_);
}

std::string Quoted(absl::string_view name) {
  constexpr size_t kMaxShown = 120;
  const bool cut = name.size() > kMaxShown;
  return absl::StrCat("'", absl::CHexEscape(name.substr(0, kMaxShown)), cut ? "..." : "", "'");
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  absl::StatusOr<std::unique_ptr<MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::Span<const std::byte> bytes = (*file)->bytes();
  if (bytes.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", bytes.size(), " bytes; expected at most ", max_bytes));
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace quire
