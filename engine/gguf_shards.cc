// The keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, "sharded models", and the
// names llama.cpp's gguf-split gives to files.
#include "engine/gguf_shards.h"

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace quire {
namespace {

constexpr char kNumber[] = "split.no";  // from 0
constexpr char kCount[] = "split.count";
constexpr char kNumTensors[] = "split.tensors.count";  // of all files together
constexpr int64_t kMaxFiles = 4096;

std::string EndOfName(int64_t number, int64_t count) {
  return absl::StrFormat("-%05d-of-%05d.gguf", number + 1, count);
}

// 0 where there is no such key: files that are not split have none.
absl::StatusOr<int64_t> OptionalInt(const GgufFile& file, const char* key) {
  return file.Has(key) ? file.GetInt(key) : int64_t{0};
}

absl::Status Bad(const GgufFile& file, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GgufShards>> GgufShards::Open(
    const std::string& path, absl::Span<const GgufOverride> overrides) {
  std::unique_ptr<GgufShards> shards(new GgufShards());
  absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path, overrides);
  if (!file.ok()) return file.status();
  shards->files_.push_back(*std::move(file));
  const GgufFile& first = shards->first();
  const absl::StatusOr<int64_t> count = OptionalInt(first, kCount);
  if (!count.ok()) return count.status();
  const absl::StatusOr<int64_t> number = OptionalInt(first, kNumber);
  if (!number.ok()) return number.status();
  if (*count < 0 || *count > kMaxFiles) {
    return Bad(first, absl::StrCat(kCount, " is ", *count, "; expected 0 to ", kMaxFiles));
  }
  if (*number != 0) {
    return Bad(first, absl::StrCat("is file ", *number + 1, " of ", *count,
                                   " of a split model; give the first one, which ends in ",
                                   EndOfName(0, *count)));
  }
  if (*count > 1) {
    if (absl::Status status = shards->OpenOthers(path, *count); !status.ok()) return status;
    if (absl::Status status = shards->CheckTensors(); !status.ok()) return status;
  }
  return shards;
}

absl::Status GgufShards::OpenOthers(const std::string& path, int64_t count) {
  absl::string_view stem = path;
  if (!absl::ConsumeSuffix(&stem, EndOfName(0, count))) {
    return Bad(first(), absl::StrCat("is the first of ", count,
                                     " files of a split model, but is not named so; expected a "
                                     "name that ends in ",
                                     EndOfName(0, count)));
  }
  for (int64_t number = 1; number < count; ++number) {
    const std::string other = absl::StrCat(stem, EndOfName(number, count));
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(other);
    if (absl::IsNotFound(file.status())) {
      return absl::NotFoundError(absl::StrCat(other, ": no such file; ", path, " is the first of ",
                                              count, " files, and all are needed"));
    }
    if (!file.ok()) return file.status();
    const absl::StatusOr<int64_t> its_number = (*file)->GetInt(kNumber);
    if (!its_number.ok()) return its_number.status();
    const absl::StatusOr<int64_t> its_count = (*file)->GetInt(kCount);
    if (!its_count.ok()) return its_count.status();
    if (*its_number != number || *its_count != count) {
      return Bad(**file, absl::StrCat("says that it is file ", *its_number + 1, " of ", *its_count,
                                      "; expected ", number + 1, " of ", count));
    }
    files_.push_back(*std::move(file));
  }
  return absl::OkStatus();
}

absl::Status GgufShards::CheckTensors() const {
  absl::flat_hash_map<absl::string_view, const GgufFile*> file_of;
  for (const std::unique_ptr<GgufFile>& file : files_) {
    for (const FileTensor& tensor : file->tensors()) {
      const auto [it, is_new] = file_of.emplace(tensor.name, file.get());
      if (!is_new) {
        return Bad(*file, absl::StrCat("tensor ", Quoted(tensor.name), " is in ",
                                       it->second->path(), " too"));
      }
    }
  }
  for (const std::unique_ptr<GgufFile>& file : files_) {
    const absl::StatusOr<int64_t> expected = file->GetInt(kNumTensors);
    if (!expected.ok()) return expected.status();
    if (*expected == static_cast<int64_t>(file_of.size())) continue;
    return Bad(*file, absl::StrCat("says that all files have ", *expected, " tensors; they have ",
                                   file_of.size(), "; is it a file of another model?"));
  }
  return absl::OkStatus();
}

const FileTensor* GgufShards::FindTensor(absl::string_view name) const {
  for (const std::unique_ptr<GgufFile>& file : files_) {
    if (const FileTensor* tensor = file->FindTensor(name); tensor != nullptr) return tensor;
  }
  return nullptr;
}

}  // namespace quire
