#include "engine/model_files.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>
#include <unistd.h>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "engine/json_fields.h"
#include "engine/json_file.h"

namespace quire {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr size_t kMaxShards = 4096;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// After FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/), by words instead of bytes.
class Hash {
 public:
  // Words of 8 bytes in four lanes, so that it runs at the speed of memory. Each step is a
  // bijection of its lane, so no change of a single word can go unnoticed.
  void Add(const void* data, size_t num_bytes) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    size_t i = 0;
    for (; i + 32 <= num_bytes; i += 32) {
      for (int lane = 0; lane < 4; ++lane) Mix(lanes_[lane], bytes + i + 8 * lane, 8);
    }
    for (int lane = 0; i < num_bytes; i += 8, ++lane) {
      Mix(lanes_[lane], bytes + i, std::min<size_t>(8, num_bytes - i));
    }
  }
  void Add(absl::string_view text) {
    Add(static_cast<int64_t>(text.size()));
    Add(text.data(), text.size());
  }
  void Add(int64_t number) { Add(&number, sizeof(number)); }
  void Add(double number) { Add(std::bit_cast<int64_t>(number)); }
  uint64_t value() const {
    uint64_t all = kStart;
    for (const uint64_t lane : lanes_) Mix(all, &lane, sizeof(lane));
    return all;
  }

 private:
  // The offset basis and the prime of FNV-1a.
  static constexpr uint64_t kStart = 0xcbf29ce484222325;
  static constexpr uint64_t kPrime = 0x100000001b3;

  static void Mix(uint64_t& lane, const void* word_bytes, size_t num_bytes) {
    uint64_t word = 0;
    std::memcpy(&word, word_bytes, num_bytes);
    lane = (lane ^ word) * kPrime;
    lane ^= lane >> 32;
  }

  uint64_t lanes_[4] = {kStart, kStart + 1, kStart + 2, kStart + 3};
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelFiles>> ModelFiles::Open(
    const std::string& path, absl::Span<const GgufOverride> overrides) {
  std::unique_ptr<ModelFiles> files(new ModelFiles(path));
  files->overrides_.assign(overrides.begin(), overrides.end());
  if (absl::Status status = CheckOverrides(path, overrides); !status.ok()) return status;
  absl::StatusOr<ModelConfig> config;
  if (IsGgufFile(path)) {
    absl::StatusOr<std::unique_ptr<GgufShards>> gguf = GgufShards::Open(path, overrides);
    if (!gguf.ok()) return gguf.status();
    files->gguf_ = *std::move(gguf);
    config = ModelConfigOfGguf(*files->gguf_);
  } else {
    files->directory_ = path;
    config = ReadModelConfig(path);
  }
  if (!config.ok()) return config.status();
  files->config_ = *std::move(config);
  files->eos_token_ids_ = files->config_.eos_token_ids;
  absl::Status status;
  if (files->gguf_ == nullptr) status = files->OpenDirectory();
  if (status.ok()) status = files->IndexTensors();
  if (status.ok()) status = files->FindScales();
  if (!status.ok()) return status;
  return files;
}

absl::Status ModelFiles::OpenDirectory() {
  const std::string single = absl::StrCat(directory_, "/", kSingleFile);
  const std::string index = absl::StrCat(directory_, "/", kIndexFile);
  absl::Status status;
  if (Exists(index)) {
    status = OpenShards(index);
  } else if (Exists(single)) {
    status = OpenShard(kSingleFile);
  } else {
    status = absl::NotFoundError(
        absl::StrCat(directory_, ": has no weights; expected ", kSingleFile, " or ", kIndexFile));
  }
  return status.ok() ? ReadGenerationConfig() : status;
}

absl::Status ModelFiles::OpenShard(const std::string& file_name) {
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> shard =
      SafetensorsFile::Open(absl::StrCat(directory_, "/", file_name));
  if (!shard.ok()) return shard.status();
  shards_.push_back(*std::move(shard));
  return absl::OkStatus();
}

absl::Status ModelFiles::OpenShards(const std::string& index_path) {
  absl::StatusOr<nlohmann::json> index = ReadJsonObject(index_path);
  if (!index.ok()) return index.status();
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(index_path, ": ", what));
  };
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object()) return bad("has no object 'weight_map'");
  std::set<std::string> file_names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string* name = file.get_ptr<const std::string*>();
    // Errors name the file, and are lines of text.
    if (name == nullptr || name->empty() || absl::StrContains(*name, '/') ||
        std::any_of(name->begin(), name->end(), absl::ascii_iscntrl)) {
      return bad(absl::StrCat("tensor ", Quoted(tensor), " is in ",
                              name ? Quoted(*name) : "something that is not a string",
                              "; expected the name of a file in the same directory"));
    }
    file_names.insert(*name);
  }
  if (file_names.size() > kMaxShards) {
    return bad(absl::StrCat("names ", file_names.size(), " files; expected at most ", kMaxShards));
  }
  size_t num_tensors = 0;
  for (const std::string& file_name : file_names) {
    if (absl::Status status = OpenShard(file_name); !status.ok()) return status;
    for (const FileTensor& tensor : shards_.back()->tensors()) {
      const auto entry = map->find(tensor.name);
      if (entry == map->end() || *entry != file_name) {
        return bad(absl::StrCat("tensor ", Quoted(tensor.name), " of ", shards_.back()->path(),
                                " is not in 'weight_map', or is said to be in another file"));
      }
      ++num_tensors;
    }
  }
  if (num_tensors == map->size()) return absl::OkStatus();
  for (const auto& [tensor, file] : map->items()) {
    const auto has = [&name = tensor](const std::unique_ptr<SafetensorsFile>& shard) {
      return std::any_of(shard->tensors().begin(), shard->tensors().end(),
                         [&](const FileTensor& found) { return found.name == name; });
    };
    if (std::none_of(shards_.begin(), shards_.end(), has)) {
      return bad(absl::StrCat("tensor ", Quoted(tensor), " is not in ",
                              Quoted(*file.get_ptr<const std::string*>()),
                              " as 'weight_map' says"));
    }
  }
  return absl::OkStatus();
}

absl::Status ModelFiles::ReadGenerationConfig() {
  const std::string path = absl::StrCat(directory_, "/generation_config.json");
  if (!Exists(path)) return absl::OkStatus();
  absl::StatusOr<nlohmann::json> object = ReadJsonObject(path);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, path);
  GenerationDefaults& defaults = generation_defaults_;
  defaults.temperature = fields.Number("temperature");
  defaults.top_k = fields.Int("top_k");
  defaults.top_p = fields.Number("top_p");
  defaults.min_p = fields.Number("min_p");
  defaults.repetition_penalty = fields.Number("repetition_penalty");
  for (const int32_t id : fields.TokenIds("eos_token_id")) {
    if (id < 0 || id >= config_.vocab_size) {
      fields.Fail(absl::StrCat("eos_token_id ", id,
                               "; expected 0 to vocab_size - 1 = ", config_.vocab_size - 1));
    }
    eos_token_ids_.push_back(id);
  }
  std::sort(eos_token_ids_.begin(), eos_token_ids_.end());
  eos_token_ids_.erase(std::unique(eos_token_ids_.begin(), eos_token_ids_.end()),
                       eos_token_ids_.end());

  const auto check = [&](const char* name, double value, bool good, const char* expected) {
    if (!good) fields.Fail(absl::StrCat("'", name, "' is ", value, "; expected ", expected));
  };
  const double temperature = defaults.temperature.value_or(1);
  check("temperature", temperature, temperature >= 0, "0 or more");
  const int top_k = defaults.top_k.value_or(0);
  check("top_k", top_k, top_k >= 0, "0 or more");
  const double top_p = defaults.top_p.value_or(1);
  check("top_p", top_p, top_p > 0 && top_p <= 1, "above 0, at most 1");
  const double min_p = defaults.min_p.value_or(0);
  check("min_p", min_p, min_p >= 0 && min_p <= 1, "0 to 1");
  const double penalty = defaults.repetition_penalty.value_or(1);
  check("repetition_penalty", penalty, penalty > 0 && penalty <= 1e6, "above 0, at most 1e6");
  return fields.status();
}

absl::Status ModelFiles::IndexTensors() {
  const auto add = [&](absl::Span<const FileTensor> tensors) {
    for (const FileTensor& tensor : tensors) {
      if (!by_name_.emplace(tensor.name, &tensor).second) {
        return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor ", Quoted(tensor.name),
                                                       " is in two of the model's files"));
      }
      tensors_.push_back(&tensor);
      total_bytes_ += tensor.num_bytes;
    }
    return absl::OkStatus();
  };
  if (gguf_ != nullptr) {
    for (const std::unique_ptr<GgufFile>& file : gguf_->files()) {
      if (absl::Status status = add(file->tensors()); !status.ok()) return status;
    }
  }
  for (const std::unique_ptr<SafetensorsFile>& shard : shards_) {
    if (absl::Status status = add(shard->tensors()); !status.ok()) return status;
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const FileTensor* a, const FileTensor* b) { return a->name < b->name; });
  return absl::OkStatus();
}

absl::Status ModelFiles::FindScales() {
  for (const FileTensor*& tensor : tensors_) {
    if (tensor->view.dtype != DType::kF8E4M3) continue;
    const FileTensor* scales = FindTensor(Fp8ScaleName(tensor->name));
    if (scales == nullptr) scales = FindTensor(Fp8InverseScaleName(tensor->name));
    if (scales == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ": tensor ", Quoted(tensor->name), " is F8_E4M3, but there is neither ",
          Quoted(Fp8ScaleName(tensor->name)), " nor ", Quoted(Fp8InverseScaleName(tensor->name))));
    }
    absl::StatusOr<Fp8Scales> read =
        ReadFp8Scales(*tensor, *scales, config_.fp8_block_rows, config_.fp8_block_cols);
    if (!read.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": ", read.status().message()));
    }
    const Fp8Scales& kept = scales_.emplace_back(*std::move(read));
    FileTensor& scaled = scaled_tensors_.emplace_back(*tensor);
    scaled.view.scales = {kept.values.data(), kept.block_rows, kept.block_cols};
    by_name_.erase(tensor->name);
    by_name_.emplace(scaled.name, &scaled);
    tensor = &scaled;
  }
  return absl::OkStatus();
}

uint64_t ModelFiles::Fingerprint() const {
  Hash hash;
  hash.Add(ToText(config_));
  for (const GgufOverride& override : overrides_) hash.Add(ToText(override));
  const RopeConfig& rope = config_.rope;
  for (const double number :
       {config_.norm_eps, rope.theta, rope.factor, rope.low_freq_factor, rope.high_freq_factor,
        rope.beta_fast, rope.beta_slow, rope.attention_factor}) {
    hash.Add(number);  // the text has six digits of each
  }
  for (const FileTensor* tensor : tensors_) {
    hash.Add(tensor->name);
    hash.Add(InfoOf(tensor->view.dtype).name);
    for (const int64_t dim : tensor->shape) hash.Add(dim);
    const WeightScales& scales = tensor->view.scales;  // their values are a tensor's too
    if (scales.data != nullptr) {
      hash.Add(scales.block_rows);
      hash.Add(scales.block_cols);
    }
    hash.Add(tensor->view.data, static_cast<size_t>(tensor->num_bytes));
  }
  return hash.value();
}

const FileTensor* ModelFiles::FindTensor(absl::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

}  // namespace quire
