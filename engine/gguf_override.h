#ifndef QUIRE_ENGINE_GGUF_OVERRIDE_H_
#define QUIRE_ENGINE_GGUF_OVERRIDE_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace quire {

// A value that an operator puts in the place of one in a GGUF file's metadata, or beside them.
struct GgufOverride {
  std::string key;
  std::variant<int64_t, double, bool, std::string> value;
};

// From "KEY=TYPE:VALUE" with TYPE int, float, bool (true or false) or str, as llama.cpp's
// --override-kv has it. INVALID_ARGUMENT names what is wrong with it.
absl::StatusOr<GgufOverride> ParseGgufOverride(absl::string_view text);

// "KEY=TYPE:VALUE" again.
std::string ToText(const GgufOverride& override);

// Whether a model's path is that of a GGUF file; else it is a folder.
bool IsGgufFile(const std::string& path);
// FAILED_PRECONDITION where there are overrides for what is no GGUF file.
absl::Status CheckOverrides(const std::string& path, absl::Span<const GgufOverride> overrides);

}  // namespace quire

#endif  // QUIRE_ENGINE_GGUF_OVERRIDE_H_
