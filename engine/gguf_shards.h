#ifndef QUIRE_ENGINE_GGUF_SHARDS_H_
#define QUIRE_ENGINE_GGUF_SHARDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "engine/gguf.h"
#include "engine/gguf_override.h"

namespace quire {

// Which files are one GGUF model: the one that is named, or, where its metadata says that it is the
// first of several (split.count), those named like it, "...-00002-of-00003.gguf" and so on, in the
// same folder? The first has the metadata of all. Immutable; any thread.
class GgufShards {
 public:
  // Errors name the file that is missing, is not of the same split, or is broken. The overrides are
  // the first file's.
  static absl::StatusOr<std::unique_ptr<GgufShards>> Open(
      const std::string& path, absl::Span<const GgufOverride> overrides = {});

  const GgufFile& first() const { return *files_.front(); }
  absl::Span<const std::unique_ptr<GgufFile>> files() const { return files_; }
  // nullptr when no file has such a tensor.
  const FileTensor* FindTensor(absl::string_view name) const;

 private:
  GgufShards() = default;

  absl::Status OpenOthers(const std::string& path, int64_t count);
  // That no tensor is in two files, and that there are as many as all files say.
  absl::Status CheckTensors() const;

  std::vector<std::unique_ptr<GgufFile>> files_;  // constant after Open
};

}  // namespace quire

#endif  // QUIRE_ENGINE_GGUF_SHARDS_H_
