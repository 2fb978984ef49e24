#ifndef QUIRE_ENGINE_MODEL_FILES_H_
#define QUIRE_ENGINE_MODEL_FILES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "engine/fp8_scales.h"
#include "engine/gguf_shards.h"
#include "engine/model_config.h"
#include "engine/safetensors.h"

namespace quire {

// What the model's makers recommend, where a request says nothing. From generation_config.json;
// empty for GGUF files.
struct GenerationDefaults {
  std::optional<double> temperature;
  std::optional<int> top_k;  // 0: off
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;  // above 0
};

// What is in the place that --model names: a Hugging Face directory (config.json, safetensors in
// one file or in shards) or a .gguf file, of which there may be more? A ModelFiles keeps them all
// mapped and finds tensors by name. It does not know which tensors a model needs (weights does),
// nor reads the tokenizer (the server does, from gguf() or directory()).
//
// Views point into the mappings and live as long as the ModelFiles. Immutable; any thread.
class ModelFiles {
 public:
  // Errors name the file and the cause. Overrides are for GGUF metadata and part of the
  // fingerprint; FAILED_PRECONDITION where `path` is no GGUF file. Cost: headers, and a few KiB of
  // each tensor.
  static absl::StatusOr<std::unique_ptr<ModelFiles>> Open(
      const std::string& path, absl::Span<const GgufOverride> overrides = {});
  ModelFiles(const ModelFiles&) = delete;
  ModelFiles& operator=(const ModelFiles&) = delete;

  const std::string& path() const { return path_; }
  const ModelConfig& config() const { return config_; }
  const GenerationDefaults& generation_defaults() const { return generation_defaults_; }
  // Tokens that end a generation, of config.json and generation_config.json together; ascending.
  absl::Span<const int32_t> eos_token_ids() const { return eos_token_ids_; }

  // Exactly one of the two: nullptr, or "". Of several GGUF files the first, which has the
  // metadata.
  const GgufFile* gguf() const { return gguf_ != nullptr ? &gguf_->first() : nullptr; }
  const std::string& directory() const { return directory_; }

  // nullptr when there is no such tensor.
  const FileTensor* FindTensor(absl::string_view name) const;
  // By name, ascending.
  absl::Span<const FileTensor* const> tensors() const { return tensors_; }
  int64_t total_bytes() const { return total_bytes_; }  // of all tensors
  // Equal for equal models, on every machine: of the configuration, and of all names, types, shapes
  // and bytes of the tensors. O(total_bytes()).
  uint64_t Fingerprint() const;

 private:
  explicit ModelFiles(std::string path) : path_(std::move(path)) {}

  absl::Status OpenDirectory();
  absl::Status OpenShards(const std::string& index_path);
  absl::Status OpenShard(const std::string& file_name);
  absl::Status ReadGenerationConfig();
  // Builds the table of tensors, once all files are open.
  absl::Status IndexTensors();
  // Gives FP8 tensors their scales.
  absl::Status FindScales();

  // Constant after Open.
  const std::string path_;
  std::string directory_;
  ModelConfig config_;
  GenerationDefaults generation_defaults_;
  std::vector<int32_t> eos_token_ids_;
  std::vector<GgufOverride> overrides_;
  std::unique_ptr<GgufShards> gguf_;
  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::deque<Fp8Scales> scales_;
  std::deque<FileTensor> scaled_tensors_;  // those of the files, with views that have scales
  std::vector<const FileTensor*> tensors_;
  absl::flat_hash_map<absl::string_view, const FileTensor*> by_name_;
  int64_t total_bytes_ = 0;
};

}  // namespace quire

#endif  // QUIRE_ENGINE_MODEL_FILES_H_
