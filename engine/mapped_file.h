#ifndef QUIRE_ENGINE_MAPPED_FILE_H_
#define QUIRE_ENGINE_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace quire {

// Where are the bytes of a file? A MappedFile is a regular file, mapped read-only as a whole;
// symbolic links are followed. It does not look at the bytes: GgufFile and SafetensorsFile do.
//
// The file must not shrink while it is mapped: reading past its new end raises SIGBUS.
// Immutable; any thread.
class MappedFile {
 public:
  // Fails when the path is not a readable, regular, non-empty file.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  absl::Span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(std::string path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  const std::string path_;
  const std::byte* const data_;
  const size_t size_;
};

// A name out of an untrusted file, as it may appear in an error: short, printable, in quotes.
std::string Quoted(absl::string_view name);

// The text of a small file. Fails when there is no such file, or it has more than `max_bytes`.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes);

}  // namespace quire

#endif  // QUIRE_ENGINE_MAPPED_FILE_H_
