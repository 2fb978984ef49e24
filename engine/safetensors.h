#ifndef QUIRE_ENGINE_SAFETENSORS_H_
#define QUIRE_ENGINE_SAFETENSORS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/file_tensor.h"
#include "engine/mapped_file.h"

namespace quire {

// What tensors does a safetensors file hold? F32, F16, BF16 and F8_E4M3 only. It does not know what
// a model needs (weights does), nor of other shards (model_files does).
//
// The bytes are untrusted. Open is as strict as the format's own library: the tensors cover the
// data section exactly, without gap or overlap, and each one's shape agrees with its bytes.
//
// Views point into the mapping and live as long as the SafetensorsFile. Immutable; any thread.
class SafetensorsFile {
 public:
  // Errors name the file, the tensor, what was expected and what was found.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  // In the order of their data.
  absl::Span<const FileTensor> tensors() const { return tensors_; }

 private:
  explicit SafetensorsFile(std::unique_ptr<MappedFile> file) : file_(std::move(file)) {}

  const std::unique_ptr<MappedFile> file_;
  std::vector<FileTensor> tensors_;  // constant after Open
};

}  // namespace quire

#endif  // QUIRE_ENGINE_SAFETENSORS_H_
