// The format: https://github.com/huggingface/safetensors (README, "Format").
#include "engine/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "engine/json_file.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // of the format's own library
constexpr size_t kMaxDims = 8;

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::StatusOr<DType> DTypeOf(const json& entry) {
  const auto it = entry.find("dtype");
  if (it == entry.end() || !it->is_string()) return Bad("has no string 'dtype'");
  const std::string& name = *it->get_ptr<const std::string*>();
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBF16;
  if (name == "F8_E4M3") return DType::kF8E4M3;
  return Bad(absl::StrCat("dtype ", Quoted(name),
                          " is not supported; expected one of F32, F16, BF16, F8_E4M3"));
}

// The array `key` of `entry`, all of whose elements are whole numbers in [0, 2^63).
absl::StatusOr<std::vector<int64_t>> NumbersOf(const json& entry, const char* key) {
  const auto it = entry.find(key);
  if (it == entry.end() || !it->is_array()) return Bad(absl::StrCat("has no array '", key, "'"));
  std::vector<int64_t> numbers;
  for (const json& element : *it) {
    const uint64_t* value = element.get_ptr<const json::number_unsigned_t*>();
    if (value == nullptr || *value > static_cast<uint64_t>(INT64_MAX)) {
      return Bad(absl::StrCat("'", key, "' has an element that is not a whole number below 2^63"));
    }
    numbers.push_back(static_cast<int64_t>(*value));
    if (numbers.size() > kMaxDims) {
      return Bad(absl::StrCat("'", key, "' has more than ", kMaxDims, " elements"));
    }
  }
  return numbers;
}

// Everything about a tensor but its name. `data` is the data section of the file.
absl::Status ReadTensor(const json& entry, absl::Span<const std::byte> data, FileTensor& tensor) {
  if (!entry.is_object()) return Bad("is not described by a JSON object");
  absl::StatusOr<DType> dtype = DTypeOf(entry);
  if (!dtype.ok()) return dtype.status();
  absl::StatusOr<std::vector<int64_t>> shape = NumbersOf(entry, "shape");
  if (!shape.ok()) return shape.status();
  absl::StatusOr<std::vector<int64_t>> offsets = NumbersOf(entry, "data_offsets");
  if (!offsets.ok()) return offsets.status();
  if (offsets->size() != 2) {
    return Bad(absl::StrCat("'data_offsets' has ", offsets->size(), " elements; expected 2"));
  }

  tensor.shape = *std::move(shape);
  int64_t num_bytes = InfoOf(*dtype).block_bytes;
  for (const int64_t dim : tensor.shape) {
    if (dim < 1 || __builtin_mul_overflow(num_bytes, dim, &num_bytes)) {
      return Bad(absl::StrCat("its shape [", absl::StrJoin(tensor.shape, ", "),
                              "] has a dimension of 0 or too many bytes to count"));
    }
  }
  const int64_t begin = (*offsets)[0];
  const int64_t end = (*offsets)[1];
  if (begin > end || end > static_cast<int64_t>(data.size())) {
    return Bad(absl::StrCat("data_offsets [", begin, ", ", end, "] are not inside the file's ",
                            data.size(), " bytes of data"));
  }
  if (end - begin != num_bytes) {
    return Bad(absl::StrCat("data_offsets [", begin, ", ", end, "] give ", end - begin,
                            " bytes; expected ", num_bytes, " for shape [",
                            absl::StrJoin(tensor.shape, ", "), "] of ", InfoOf(*dtype).name));
  }
  tensor.num_bytes = num_bytes;
  tensor.view.dtype = *dtype;
  tensor.view.data = data.data() + begin;
  tensor.view.cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  tensor.view.rows = num_bytes / InfoOf(*dtype).block_bytes / tensor.view.cols;
  return absl::OkStatus();
}

// The tensors, in the order of their data, must cover it exactly.
absl::Status CheckCover(absl::Span<const FileTensor> tensors, absl::Span<const std::byte> data) {
  const std::byte* expected = data.data();
  for (const FileTensor& tensor : tensors) {
    if (tensor.view.data != expected) {
      return Bad(absl::StrCat("tensor ", Quoted(tensor.name), " begins at data offset ",
                              tensor.view.data - data.data(), "; expected ", expected - data.data(),
                              ", where the one before it ends"));
    }
    expected += tensor.num_bytes;
  }
  if (expected != data.data() + data.size()) {
    return Bad(absl::StrCat("has ", data.size(), " bytes of data; expected ",
                            expected - data.data(), ", where the last tensor ends"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FileTensor>> ReadTensors(const MappedFile& file) {
  const absl::Span<const std::byte> bytes = file.bytes();
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) {
    return Bad(absl::StrCat("has ", bytes.size(), " bytes; expected at least 8"));
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const absl::Span<const std::byte> rest = bytes.subspan(sizeof(header_bytes));
  if (header_bytes > std::min<uint64_t>(kMaxHeaderBytes, rest.size())) {
    return Bad(absl::StrCat("claims a header of ", header_bytes, " bytes; expected at most ",
                            std::min<uint64_t>(kMaxHeaderBytes, rest.size())));
  }
  const absl::string_view header(reinterpret_cast<const char*>(rest.data()), header_bytes);
  absl::StatusOr<json> parsed = ParseJson(header, "its header");
  if (!parsed.ok()) return parsed.status();
  if (!parsed->is_object()) return Bad("its header is not a JSON object");

  const absl::Span<const std::byte> data = rest.subspan(header_bytes);
  std::vector<FileTensor> tensors;
  for (const auto& [name, entry] : parsed->items()) {
    if (name == "__metadata__") continue;
    tensors.emplace_back().name = name;
    if (absl::Status status = ReadTensor(entry, data, tensors.back()); !status.ok()) {
      return Bad(absl::StrCat("tensor ", Quoted(name), ": ", status.message()));
    }
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const FileTensor& a, const FileTensor& b) { return a.view.data < b.view.data; });
  if (absl::Status status = CheckCover(tensors, data); !status.ok()) return status;
  return tensors;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<MappedFile>> mapped = MappedFile::Open(path);
  if (!mapped.ok()) return mapped.status();
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(*std::move(mapped)));
  absl::StatusOr<std::vector<FileTensor>> tensors = ReadTensors(*file->file_);
  if (!tensors.ok()) {
    return Bad(absl::StrCat(path, ": ", tensors.status().message()));
  }
  file->tensors_ = *std::move(tensors);
  return file;
}

}  // namespace quire
