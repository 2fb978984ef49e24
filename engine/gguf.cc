// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#include "engine/gguf.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quire {
namespace {

// Bounds that no model comes near, so that a small lie cannot become a large allocation.
constexpr uint64_t kMaxEntries = 1 << 16;
constexpr uint64_t kMaxTensors = 1 << 20;
constexpr uint64_t kMaxArrayLength = 1 << 24;
constexpr uint64_t kMaxKeyBytes = 65535;  // of the specification
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMaxAlignment = 1 << 16;
// The fewest bytes that a metadata entry and a tensor's description take.
constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

// Numbers are those of ggml_type; nullptr where ggml has none (removed or not yet given).
const char* GgmlTypeName(uint32_t type) {
  static constexpr const char* kNames[] = {
      "F32",     "F16",    "Q4_0",    "Q4_1",  nullptr,  nullptr, "Q5_0",  "Q5_1",
      "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
      "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
      "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16",  nullptr,
      nullptr,   nullptr,  "TQ1_0",   "TQ2_0", nullptr,  nullptr, nullptr, "MXFP4"};
  return type < std::size(kNames) ? kNames[type] : nullptr;
}

absl::StatusOr<DType> DTypeOfGgml(uint32_t type) {
  switch (type) {
    case 0:
      return DType::kF32;
    case 1:
      return DType::kF16;
    case 2:
      return DType::kQ4_0;
    case 3:
      return DType::kQ4_1;
    case 6:
      return DType::kQ5_0;
    case 7:
      return DType::kQ5_1;
    case 8:
      return DType::kQ8_0;
    case 12:
      return DType::kQ4_K;
    case 13:
      return DType::kQ5_K;
    case 14:
      return DType::kQ6_K;
    case 30:
      return DType::kBF16;
    default: {
      const char* name = GgmlTypeName(type);
      return absl::InvalidArgumentError(
          absl::StrCat("type ", type, name ? absl::StrCat(" (", name, ")") : " (unknown)",
                       " is not supported; expected one of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
                       "Q8_0, Q4_K, Q5_K, Q6_K"));
    }
  }
}

}  // namespace

// Takes values off the front of the mapping; every Read checks that the bytes are there.
class GgufFile::Reader {
 public:
  explicit Reader(absl::Span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  const std::byte* here() const { return bytes_.data() + position_; }

  template <typename T>
  [[nodiscard]] bool Read(T& value) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&value, here(), sizeof(T));
    position_ += sizeof(T);
    return true;
  }
  [[nodiscard]] bool Skip(uint64_t num_bytes) {
    if (remaining() < num_bytes) return false;
    position_ += num_bytes;
    return true;
  }
  [[nodiscard]] bool ReadString(absl::string_view& value) {
    uint64_t length = 0;
    if (!Read(length) || remaining() < length) return false;
    value = absl::string_view(reinterpret_cast<const char*>(here()), length);
    position_ += length;
    return true;
  }

 private:
  const absl::Span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path,
                                                         absl::Span<const GgufOverride> overrides) {
  absl::StatusOr<std::unique_ptr<MappedFile>> mapped = MappedFile::Open(path);
  if (!mapped.ok()) return mapped.status();
  std::unique_ptr<GgufFile> gguf(new GgufFile(*std::move(mapped)));
  Reader reader(gguf->file_->bytes());

  char magic[4];
  uint32_t version = 0;
  uint64_t num_tensors = 0;
  uint64_t num_entries = 0;
  if (!reader.Read(magic) || std::memcmp(magic, "GGUF", sizeof(magic)) != 0) {
    return gguf->Bad("not a GGUF file: expected it to begin with 'GGUF'");
  }
  if (!reader.Read(version) || !reader.Read(num_tensors) || !reader.Read(num_entries)) {
    return gguf->Bad("the file ends inside its header");
  }
  if (version != 2 && version != 3) {
    return gguf->Bad(absl::StrCat("GGUF version ", version, "; expected 2 or 3",
                                  version > 0xffff ? " (is it a big-endian file?)" : ""));
  }
  gguf->version_ = static_cast<int>(version);
  if (absl::Status status = gguf->ReadMetadata(reader, num_entries); !status.ok()) return status;
  for (const GgufOverride& override : overrides) {
    if (absl::Status status = gguf->Override(override); !status.ok()) return status;
  }
  std::vector<uint64_t> offsets;
  absl::Status status = gguf->ReadTensorTable(reader, num_tensors, offsets);
  if (status.ok()) status = gguf->PlaceTensors(reader.position(), offsets);
  if (status.ok()) status = gguf->CheckOverlaps();
  if (!status.ok()) return status;
  return gguf;
}

absl::Status GgufFile::ReadMetadata(Reader& reader, uint64_t num_entries) {
  if (num_entries > std::min(kMaxEntries, reader.remaining() / kMinEntryBytes)) {
    return Bad(absl::StrCat("the header claims ", num_entries,
                            " metadata entries; expected at most ",
                            std::min(kMaxEntries, reader.remaining() / kMinEntryBytes)));
  }
  keys_.reserve(num_entries);
  entries_.reserve(num_entries);
  for (uint64_t i = 0; i < num_entries; ++i) {
    absl::string_view key;
    if (!reader.ReadString(key)) {
      return Bad(absl::StrCat("the key of metadata entry ", i, " runs past the end of the file"));
    }
    if (key.empty() || key.size() > kMaxKeyBytes) {
      return Bad(absl::StrCat("the key of metadata entry ", i, " has ", key.size(),
                              " bytes; expected 1 to ", kMaxKeyBytes));
    }
    if (absl::Status status = ReadEntry(reader, key); !status.ok()) return status;
  }
  constexpr absl::string_view kAlignment = "general.alignment";
  if (!Has(kAlignment)) return absl::OkStatus();
  absl::StatusOr<int64_t> alignment = GetInt(kAlignment);
  if (!alignment.ok()) return alignment.status();
  if (*alignment < 8 || *alignment > static_cast<int64_t>(kMaxAlignment) ||
      (*alignment & (*alignment - 1)) != 0) {
    return Bad(absl::StrCat("general.alignment is ", *alignment,
                            "; expected a power of two from 8 to ", kMaxAlignment));
  }
  alignment_ = static_cast<uint64_t>(*alignment);
  return absl::OkStatus();
}

absl::Status GgufFile::ReadEntry(Reader& reader, absl::string_view key) {
  Entry entry;
  uint32_t type = 0;
  const auto truncated = [&] {
    return Bad(absl::StrCat("the value of key ", Quoted(key), " runs past the end of the file"));
  };
  if (!reader.Read(type)) return truncated();
  entry.type = static_cast<ValueType>(type);
  entry.data = reader.here();
  if (entry.type == ValueType::kArray) {
    if (absl::Status status = ReadArray(reader, key, entry); !status.ok()) return status;
  } else if (entry.type == ValueType::kString) {
    absl::string_view ignored;
    if (!reader.ReadString(ignored)) return truncated();
  } else if (SizeOf(entry.type) == 0) {
    return Bad(absl::StrCat("key ", Quoted(key), " has the unknown value type ", type));
  } else if (!reader.Skip(SizeOf(entry.type))) {
    return truncated();
  } else if (entry.type == ValueType::kBool && std::to_integer<uint8_t>(*entry.data) > 1) {
    return Bad(absl::StrCat("key ", Quoted(key), " is a bool with the value ",
                            std::to_integer<int>(*entry.data), "; expected 0 or 1"));
  }
  if (!entries_.emplace(key, entry).second) {
    return Bad(absl::StrCat("key ", Quoted(key), " appears twice"));
  }
  keys_.push_back(key);
  return absl::OkStatus();
}

absl::Status GgufFile::ReadArray(Reader& reader, absl::string_view key, Entry& entry) {
  uint32_t type = 0;
  uint64_t count = 0;
  const auto truncated = [&] {
    return Bad(absl::StrCat("the array of key ", Quoted(key), " (", count,
                            " elements) runs past the end of the file"));
  };
  if (!reader.Read(type) || !reader.Read(count)) return truncated();
  entry.is_array = true;
  entry.type = static_cast<ValueType>(type);
  entry.count = count;
  entry.data = reader.here();
  if (count > kMaxArrayLength) {
    return Bad(absl::StrCat("the array of key ", Quoted(key), " claims ", count,
                            " elements; expected at most ", kMaxArrayLength));
  }
  if (entry.type == ValueType::kString) {
    for (uint64_t i = 0; i < count; ++i) {
      absl::string_view ignored;
      if (!reader.ReadString(ignored)) return truncated();
    }
    return absl::OkStatus();
  }
  const size_t size = SizeOf(entry.type);
  if (size == 0) {
    return Bad(absl::StrCat("key ", Quoted(key), " is an array of type ", type,
                            "; expected numbers, bools or strings"));
  }
  return reader.Skip(count * size) ? absl::OkStatus() : truncated();
}

absl::Status GgufFile::ReadTensorTable(Reader& reader, uint64_t num_tensors,
                                       std::vector<uint64_t>& offsets) {
  if (num_tensors > std::min(kMaxTensors, reader.remaining() / kMinTensorBytes)) {
    return Bad(absl::StrCat("the header claims ", num_tensors, " tensors; expected at most ",
                            std::min(kMaxTensors, reader.remaining() / kMinTensorBytes)));
  }
  offsets.resize(num_tensors);
  tensors_.resize(num_tensors);
  tensor_idx_.reserve(num_tensors);
  for (uint64_t i = 0; i < num_tensors; ++i) {
    absl::Status status = ReadTensorInfo(reader, tensors_[i], offsets[i]);
    if (!status.ok()) {
      return Bad(absl::StrCat("tensor ", i, " ", Quoted(tensors_[i].name), ": ", status.message()));
    }
    if (!tensor_idx_.emplace(tensors_[i].name, i).second) {
      return Bad(absl::StrCat("tensor ", Quoted(tensors_[i].name), " appears twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status GgufFile::ReadTensorInfo(Reader& reader, FileTensor& tensor, uint64_t& offset) {
  absl::string_view name;
  uint32_t num_dims = 0;
  uint32_t type = 0;
  const auto truncated = [] {
    return absl::InvalidArgumentError("its description runs past the end of the file");
  };
  if (!reader.ReadString(name)) return truncated();
  tensor.name.assign(name.data(), name.size());
  if (!reader.Read(num_dims)) return truncated();
  if (num_dims < 1 || num_dims > kMaxDims) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", num_dims, " dimensions; expected 1 to ", kMaxDims));
  }
  tensor.shape.resize(num_dims);
  for (uint32_t i = 0; i < num_dims; ++i) {  // the file has the fastest dimension first
    if (!reader.Read(tensor.shape[num_dims - 1 - i])) return truncated();
  }
  if (!reader.Read(type) || !reader.Read(offset)) return truncated();
  absl::StatusOr<DType> dtype = DTypeOfGgml(type);
  if (!dtype.ok()) return dtype.status();
  tensor.view.dtype = *dtype;

  const DTypeInfo info = InfoOf(*dtype);
  int64_t num_elems = 1;
  for (const int64_t dim : tensor.shape) {
    if (dim < 1 || __builtin_mul_overflow(num_elems, dim, &num_elems)) {
      return absl::InvalidArgumentError(
          absl::StrCat("its shape [", absl::StrJoin(tensor.shape, ", "),
                       "] (slowest first) has a dimension below 1 or too many elements to count"));
    }
  }
  tensor.view.cols = tensor.shape.back();
  tensor.view.rows = num_elems / tensor.view.cols;
  if (tensor.view.cols % info.block_elems != 0) {
    return absl::InvalidArgumentError(absl::StrCat("rows of ", tensor.view.cols,
                                                   " elements of type ", info.name,
                                                   "; expected a multiple of ", info.block_elems));
  }
  if (__builtin_mul_overflow(num_elems / info.block_elems, int64_t{info.block_bytes},
                             &tensor.num_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_elems, " elements of type ", info.name, " are too many bytes to count"));
  }
  return absl::OkStatus();
}

absl::Status GgufFile::PlaceTensors(uint64_t table_end, absl::Span<const uint64_t> offsets) {
  const absl::Span<const std::byte> bytes = file_->bytes();
  // Neither sum overflows: the table lies inside a mapped file, and alignment_ is small.
  const uint64_t data_start = (table_end + alignment_ - 1) / alignment_ * alignment_;
  const uint64_t data_bytes = bytes.size() > data_start ? bytes.size() - data_start : 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    FileTensor& tensor = tensors_[i];
    if (offsets[i] % alignment_ != 0) {
      return Bad(absl::StrCat("tensor ", Quoted(tensor.name), " is at data offset ", offsets[i],
                              "; expected a multiple of the alignment ", alignment_));
    }
    const uint64_t num_bytes = static_cast<uint64_t>(tensor.num_bytes);
    if (offsets[i] > data_bytes || num_bytes > data_bytes - offsets[i]) {
      return Bad(absl::StrCat(
          "tensor ", Quoted(tensor.name), " of ", num_bytes, " bytes at data offset ", offsets[i],
          " runs past the end of the file, which has ", data_bytes, " bytes of data"));
    }
    tensor.view.data = bytes.data() + data_start + offsets[i];
  }
  return absl::OkStatus();
}

absl::Status GgufFile::CheckOverlaps() const {
  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [this](size_t a, size_t b) { return tensors_[a].view.data < tensors_[b].view.data; });
  for (size_t i = 1; i < order.size(); ++i) {
    const FileTensor& first = tensors_[order[i - 1]];
    const FileTensor& second = tensors_[order[i]];
    if (first.view.data + first.num_bytes > second.view.data) {
      return Bad(absl::StrCat("tensors ", Quoted(first.name), " and ", Quoted(second.name),
                              " overlap: ", first.num_bytes, " bytes, but the second begins after ",
                              second.view.data - first.view.data));
    }
  }
  return absl::OkStatus();
}

const FileTensor* GgufFile::FindTensor(absl::string_view name) const {
  const auto it = tensor_idx_.find(name);
  return it == tensor_idx_.end() ? nullptr : &tensors_[it->second];
}

absl::Status GgufFile::Bad(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(path(), ": ", what));
}

}  // namespace quire
