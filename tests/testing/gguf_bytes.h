#ifndef QUIRE_TESTS_TESTING_GGUF_BYTES_H_
#define QUIRE_TESTS_TESTING_GGUF_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace quire {

// Writes GGUF files, right and wrong ones, piece by piece. It checks nothing.
class GgufBytes {
 public:
  enum Type : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64 };

  template <typename T>
  static std::string Raw(T value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static std::string Str(const std::string& text) { return Raw(uint64_t{text.size()}) + text; }

  GgufBytes& Entry(const std::string& key, uint32_t type, const std::string& value) {
    metadata_ += Str(key) + Raw(type) + value;
    ++num_entries_;
    return *this;
  }
  GgufBytes& String(const std::string& key, const std::string& value) {
    return Entry(key, kString, Str(value));
  }
  GgufBytes& U32(const std::string& key, uint32_t value) { return Entry(key, kU32, Raw(value)); }
  GgufBytes& F32(const std::string& key, float value) { return Entry(key, kF32, Raw(value)); }
  // `elements` is their bytes.
  GgufBytes& Array(const std::string& key, uint32_t type, uint64_t count,
                   const std::string& elements) {
    return Entry(key, kArray, Raw(type) + Raw(count) + elements);
  }
  // `dims` has the fastest first, as the file does.
  GgufBytes& Tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                    uint64_t offset) {
    table_ += Str(name) + Raw(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) table_ += Raw(dim);
    table_ += Raw(type) + Raw(offset);
    ++num_tensors_;
    return *this;
  }
  GgufBytes& Data(const std::string& bytes) {
    data_ += bytes;
    return *this;
  }

  std::string Build(uint32_t version = 3, size_t alignment = 32) const {
    std::string file =
        "GGUF" + Raw(version) + Raw(num_tensors_) + Raw(num_entries_) + metadata_ + table_;
    if (num_tensors_ > 0) file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data_;
  }

 private:
  uint64_t num_entries_ = 0;
  uint64_t num_tensors_ = 0;
  std::string metadata_;
  std::string table_;
  std::string data_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_GGUF_BYTES_H_
