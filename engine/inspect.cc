#include "engine/inspect.h"

#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "engine/json_fields.h"
#include "engine/json_file.h"
#include "engine/model_files.h"
#include "engine/weight_plan.h"
#include "engine/weights.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

TensorReport ReportOf(const FileTensor& tensor) {
  return {.name = tensor.name,
          .shape = tensor.shape,
          .format = InfoOf(tensor.view.dtype).name,
          .num_parameters = tensor.view.rows * tensor.view.cols,
          .num_bytes = tensor.num_bytes};
}

// Which words of config.json made it a member of its family.
std::string ReasonInConfigJson(const std::string& config_path, const ModelFamily& family) {
  absl::StatusOr<nlohmann::json> config = ReadJsonObject(config_path);
  const bool by_architecture = config.ok() && config->contains("architectures");
  return by_architecture ? absl::StrCat("config.json has architectures ", family.hf_architecture)
                         : absl::StrCat("config.json has model_type ", family.hf_model_type);
}

absl::Status AddModelFiles(const std::string& path, absl::Span<const GgufOverride> overrides,
                           ModelReport* report) {
  absl::StatusOr<std::unique_ptr<ModelFiles>> files = ModelFiles::Open(path, overrides);
  if (!files.ok()) return files.status();
  absl::StatusOr<ModelWeights> weights = FindWeights(**files);
  if (!weights.ok()) return weights.status();
  for (const FileTensor* tensor : (*files)->tensors()) report->tensors.push_back(ReportOf(*tensor));
  report->config = (*files)->config();
  absl::StatusOr<WeightPlan> plan = PlanWeights(EngineConfig(), *weights, CpuIsa::kAvx2);
  if (!plan.ok()) return plan.status();
  report->held_weight_bytes = plan->bytes;
  return absl::OkStatus();
}

// What cannot be looked at counts as there: opening it tells why.
bool MayExist(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) || error;
}

absl::StatusOr<ModelReport> InspectFolder(const std::string& folder, bool config_only) {
  ModelReport report;
  const bool has_weights = MayExist(fs::path(folder) / "model.safetensors") ||
                           MayExist(fs::path(folder) / "model.safetensors.index.json");
  if (has_weights && !config_only) {
    report.kind = "Hugging Face folder";
    if (absl::Status status = AddModelFiles(folder, /*overrides=*/{}, &report); !status.ok())
      return status;
  } else {
    report.kind = "config.json";
    absl::StatusOr<ModelConfig> config = ReadModelConfig(folder);
    if (!config.ok()) return config.status();
    report.config = *std::move(config);
  }
  report.family_reason =
      ReasonInConfigJson((fs::path(folder) / "config.json").string(), *report.config->family);
  return report;
}

absl::StatusOr<ModelReport> InspectGguf(const std::string& path,
                                        absl::Span<const GgufOverride> overrides) {
  ModelReport report;
  report.kind = "GGUF file";
  absl::StatusOr<std::unique_ptr<GgufShards>> file = GgufShards::Open(path, overrides);
  if (!file.ok()) return file.status();
  if ((*file)->files().size() == 1 && (*file)->first().tensors().empty()) {
    absl::StatusOr<ModelConfig> config = ModelConfigOfGguf(**file);
    if (config.ok()) report.config = *std::move(config);
  } else if (absl::Status status = AddModelFiles(path, overrides, &report); !status.ok()) {
    return status;
  }
  if (report.config) {
    report.family_reason =
        absl::StrCat("general.architecture is ", report.config->family->gguf_architecture);
  }
  return report;
}

absl::StatusOr<ModelReport> InspectSafetensors(const std::string& path) {
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> file = SafetensorsFile::Open(path);
  if (!file.ok()) return file.status();
  ModelReport report;
  report.kind = "safetensors file";
  for (const FileTensor& tensor : (*file)->tensors()) report.tensors.push_back(ReportOf(tensor));
  return report;
}

}  // namespace

absl::StatusOr<ModelReport> InspectModel(const std::string& path,
                                         absl::Span<const GgufOverride> overrides) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file or folder"));
  }
  const bool may_be_gguf = !fs::is_directory(path, error) &&
                           fs::path(path).filename() != "config.json" &&
                           !absl::EndsWith(path, ".safetensors");
  if (may_be_gguf) return InspectGguf(path, overrides);
  if (!overrides.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is no GGUF file, so that there is no metadata to override"));
  }
  if (fs::is_directory(path, error)) return InspectFolder(path, /*config_only=*/false);
  if (fs::path(path).filename() == "config.json") {
    const fs::path folder = fs::path(path).parent_path();
    return InspectFolder(folder.empty() ? "." : folder.string(), /*config_only=*/true);
  }
  return InspectSafetensors(path);
}

}  // namespace quire
