#ifndef QUIRE_TESTS_FUZZ_FUZZ_INPUT_H_
#define QUIRE_TESTS_FUZZ_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

#include "kernels/check.h"

// What a target is: libFuzzer calls it with inputs that it makes up (README.md), run_inputs.cc with
// the files that are kept.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace quire {

inline absl::string_view ViewOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Cuts `input` at lines of four dashes into exactly `num_parts` parts, so that one input can be
// several files and texts. The last part may hold such lines; parts that are not there are empty.
inline std::vector<absl::string_view> SplitParts(absl::string_view input, size_t num_parts) {
  constexpr absl::string_view kSeparator = "\n----\n";
  std::vector<absl::string_view> parts;
  while (parts.size() + 1 < num_parts) {
    const size_t end = input.find(kSeparator);
    parts.push_back(input.substr(0, end));
    input = end == absl::string_view::npos ? "" : input.substr(end + kSeparator.size());
  }
  parts.push_back(input);
  return parts;
}

// A folder for files that a library wants by path: in memory unless TMPDIR says otherwise. Removed
// at the end of the process, unless that is a crash.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* parent = std::getenv("TMPDIR");
    if (parent == nullptr && std::filesystem::is_directory("/dev/shm")) parent = "/dev/shm";
    path_ = std::string(parent == nullptr ? "." : parent) + "/quire_fuzz_XXXXXX";
    QUIRE_CHECK(mkdtemp(path_.data()) != nullptr, "cannot make a folder in TMPDIR");
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  // Returns the path of the file.
  std::string Write(const std::string& name, absl::string_view content) const {
    std::ofstream file(Path(name), std::ios::binary | std::ios::trunc);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    file.close();
    QUIRE_CHECK(file.good(), "cannot write into TMPDIR");
    return Path(name);
  }

 private:
  std::string path_;
};

// Well-formed UTF-8 (Unicode, table 3-7), written out as a definition of its own: what is checked
// with it has other code for the same.
inline bool IsWellFormedUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto at = [&](size_t k) -> uint32_t {
      return i + k < text.size() ? static_cast<uint8_t>(text[i + k]) : 0;
    };
    const uint32_t lead = at(0);
    const size_t length = lead < 0x80           ? 1
                          : (lead >> 5) == 0x06 ? 2
                          : (lead >> 4) == 0x0E ? 3
                          : (lead >> 3) == 0x1E ? 4
                                                : 0;
    if (length == 0) return false;
    uint32_t code_point = length == 1 ? lead : lead & (0x7Fu >> length);
    for (size_t k = 1; k < length; ++k) {
      if ((at(k) & 0xC0) != 0x80) return false;
      code_point = code_point << 6 | (at(k) & 0x3F);
    }
    constexpr uint32_t kFewest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code_point < kFewest[length] || code_point > 0x10FFFF) return false;
    if (code_point >= 0xD800 && code_point <= 0xDFFF) return false;
    i += length;
  }
  return true;
}

// What any error about a file must be: it names the file, and fits on a terminal.
inline void CheckFileError(const absl::Status& status, const std::string& path) {
  QUIRE_CHECK(!status.ok(), "only errors are checked");
  QUIRE_CHECK(absl::StrContains(status.message(), path), "an error does not name the file");
  QUIRE_CHECK(status.message().size() < path.size() * 4 + 3000, "an error is too long to read");
  QUIRE_CHECK(IsWellFormedUtf8(status.message()), "an error is not UTF-8");
  for (const char c : status.message()) {
    const auto byte = static_cast<unsigned char>(c);
    QUIRE_CHECK(byte >= 0x20 && byte != 0x7F, "an error has control characters");
  }
}

// Looks at every byte, so that a sanitizer sees those that are not there.
inline void Touch(const void* data, size_t num_bytes) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  unsigned char all = 0;
  for (size_t i = 0; i < num_bytes; ++i) all ^= bytes[i];
  [[maybe_unused]] const volatile unsigned char sink = all;
}

}  // namespace quire

#endif  // QUIRE_TESTS_FUZZ_FUZZ_INPUT_H_
