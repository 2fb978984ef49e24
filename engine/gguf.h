#ifndef QUIRE_ENGINE_GGUF_H_
#define QUIRE_ENGINE_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "engine/file_tensor.h"
#include "engine/gguf_override.h"
#include "engine/mapped_file.h"

namespace quire {

// What does a GGUF file (version 2 or 3, little endian) hold? Its metadata by key, and
// its table of tensors. It does not know what keys or tensors a model needs: model_config and
// weights do. Nor does it know of the other files of a split model: GgufShards does.
//
// The bytes are untrusted. Open checks every count, length, type, shape and offset before it is
// used, and that keys and names are unique and tensors do not overlap, so what is returned later
// is inside the file. A file without tensors (a vocabulary) opens.
//
// Views point into the mapping and live as long as the GgufFile. Immutable; any thread.
class GgufFile {
 public:
  // Errors name the file, the key or tensor, what was expected and what was found.
  // The overrides are read as if the file had them. O(bytes of metadata); tensor data is not
  // touched.
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(
      const std::string& path, absl::Span<const GgufOverride> overrides = {});

  const std::string& path() const { return file_->path(); }
  int version() const { return version_; }

  // Metadata. A key that is not there is a NotFound error, a value of another type an
  // InvalidArgument error; both name file and key.
  bool Has(absl::string_view key) const { return entries_.contains(key); }
  absl::StatusOr<absl::string_view> GetString(absl::string_view key) const;
  absl::StatusOr<bool> GetBool(absl::string_view key) const;
  // Any integer type of the file, if the value fits.
  absl::StatusOr<int64_t> GetInt(absl::string_view key) const;
  // Any floating or integer type.
  absl::StatusOr<double> GetFloat(absl::string_view key) const;
  // Arrays: O(length), at most 8 times the array's bytes in the file.
  absl::StatusOr<std::vector<absl::string_view>> GetStrings(absl::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetInts(absl::string_view key) const;
  absl::StatusOr<std::vector<float>> GetFloats(absl::string_view key) const;
  // All keys, in the order of the file, then those that overrides added.
  absl::Span<const absl::string_view> keys() const { return keys_; }

  // In the order of the file.
  absl::Span<const FileTensor> tensors() const { return tensors_; }
  // nullptr when there is no such tensor.
  const FileTensor* FindTensor(absl::string_view name) const;

 private:
  // The numbers are those of the format.
  enum class ValueType : uint32_t {
    kUint8 = 0,
    kInt8 = 1,
    kUint16 = 2,
    kInt16 = 3,
    kUint32 = 4,
    kInt32 = 5,
    kFloat32 = 6,
    kBool = 7,
    kString = 8,
    kArray = 9,
    kUint64 = 10,
    kInt64 = 11,
    kFloat64 = 12,
  };
  struct Entry {
    bool is_array = false;
    ValueType type = ValueType::kUint8;  // of the elements, if an array
    uint64_t count = 1;
    const std::byte* data = nullptr;  // of the value, or of the first element
  };
  class Reader;

  explicit GgufFile(std::unique_ptr<MappedFile> file) : file_(std::move(file)) {}

  static const char* NameOf(ValueType type);
  // 0 for strings and arrays, and for numbers that are no type.
  static size_t SizeOf(ValueType type);
  static bool IsInteger(ValueType type);
  static absl::StatusOr<int64_t> ToInt(ValueType type, const std::byte* data);
  static double ToFloat(ValueType type, const std::byte* data);

  absl::Status Override(const GgufOverride& override);
  absl::Status ReadMetadata(Reader& reader, uint64_t num_entries);
  absl::Status ReadEntry(Reader& reader, absl::string_view key);
  absl::Status ReadArray(Reader& reader, absl::string_view key, Entry& entry);
  // Offsets are left in `offsets`, one a tensor, from the start of the data section.
  absl::Status ReadTensorTable(Reader& reader, uint64_t num_tensors,
                               std::vector<uint64_t>& offsets);
  absl::Status ReadTensorInfo(Reader& reader, FileTensor& tensor, uint64_t& offset);
  absl::Status PlaceTensors(uint64_t table_end, absl::Span<const uint64_t> offsets);
  absl::Status CheckOverlaps() const;

  absl::Status Bad(absl::string_view what) const;
  absl::StatusOr<const Entry*> Find(absl::string_view key, bool is_array) const;
  absl::Status WrongType(absl::string_view key, const Entry& entry,
                         absl::string_view expected) const;

  const std::unique_ptr<MappedFile> file_;
  // Constant after Open.
  int version_ = 0;
  uint64_t alignment_ = 32;
  std::deque<std::string> override_bytes_;  // keys and values of overrides, as a file has them
  std::vector<absl::string_view> keys_;
  absl::flat_hash_map<absl::string_view, Entry> entries_;
  std::vector<FileTensor> tensors_;
  absl::flat_hash_map<absl::string_view, size_t> tensor_idx_;  // keys are views of tensors_[i].name
};

}  // namespace quire

#endif  // QUIRE_ENGINE_GGUF_H_
