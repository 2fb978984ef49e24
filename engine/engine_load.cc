// Engine::Load: from a path to an engine that runs. Everything that can be refused is refused
// here, the cheap things first.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "engine/calibration.h"
#include "engine/engine.h"
#include "engine/engine_loop.h"
#include "engine/kv_plan.h"
#include "engine/memory_budget.h"
#include "engine/model_files.h"
#include "engine/transformer.h"
#include "engine/weight_plan.h"
#include "engine/weights.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/isa.h"

namespace quire {
namespace {

// Rows of logits that a step may bring at least, so that `eval` runs in reasonable chunks.
constexpr int kMinLogitRows = 64;
// Of a KV pool's tokens, how many may wait to be computed.
constexpr int64_t kQueuedPools = 4;
// Rises when a release computes other bits than the one before.
constexpr int kNumericsVersion = 2;
// Costs are the least of a few measurements; steps under other load take longer. With this on top,
// gaps between tokens stay at the target (tests/bench/README.md, "a prompt of 4096 arrives").
constexpr double kCostMargin = 1.1;

// Reports each phase with its time, as it ends.
class Phases {
 public:
  explicit Phases(const LoadProgress& progress) : progress_(progress) {}
  void Done(absl::string_view phase) {
    const auto now = std::chrono::steady_clock::now();
    if (progress_) progress_(phase, std::chrono::duration<double>(now - start_).count());
    start_ = now;
  }

 private:
  const LoadProgress& progress_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The type that most of the bytes have.
std::string WeightFormat(const ModelFiles& files) {
  std::map<DType, int64_t> bytes;
  for (const FileTensor* tensor : files.tensors()) {
    const DTypeInfo info = InfoOf(tensor->view.dtype);
    bytes[tensor->view.dtype] +=
        tensor->view.rows * tensor->view.cols / info.block_elems * info.block_bytes;
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "none" : InfoOf(most->first).name;
}

// What is known before anything is loaded, and checked as far as it can be.
struct Opened {
  std::unique_ptr<ModelFiles> files;
  KvPlan kv;
  WeightPlan weights;
  std::unique_ptr<Backend> backend;
};

absl::StatusOr<Opened> OpenAndPlan(const EngineConfig& config) {
  absl::StatusOr<std::unique_ptr<ModelFiles>> files =
      ModelFiles::Open(config.model_path, config.gguf_overrides);
  if (!files.ok()) return files.status();
  // Before anything is said or costs time; Transformer::Load finds them again.
  absl::StatusOr<ModelWeights> found = FindWeights(**files);
  if (!found.ok()) return found.status();
  const absl::StatusOr<IsaChoice> isa = DetectCpuIsa();
  if (!isa.ok()) return isa.status();
  absl::StatusOr<WeightPlan> weights = PlanWeights(config, *found, isa->isa);
  if (!weights.ok()) return weights.status();
  absl::StatusOr<KvPlan> kv =
      PlanKv(config, (*files)->config(), AvailableMemoryBytes(), weights->bytes);
  if (!kv.ok()) return kv.status();
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend(
      {.num_threads = config.num_threads, .isa = std::nullopt, .numerics = weights->numerics});
  if (!backend.ok()) return backend.status();
  return Opened{.files = *std::move(files),
                .kv = *std::move(kv),
                .weights = *weights,
                .backend = *std::move(backend)};
}

ModelInfo DescribeModel(const ModelFiles& files, const Backend& backend, const KvPlan& kv,
                        const WeightPlan& weights, const EngineConfig& config) {
  const GenerationDefaults& defaults = files.generation_defaults();
  ModelInfo info;
  info.path = files.path();
  info.architecture = files.config().family->hf_architecture;
  info.weight_format = WeightFormat(files);
  info.numerics_mode = backend.NumericsName();
  info.backend = backend.Describe();
  // Whatever else decides about tokens is named beside the hash.
  info.fingerprint = absl::StrFormat("%016x-%s.%d-kv-bf16", files.Fingerprint(),
                                     backend.NumericsName(), kNumericsVersion);
  if (config.quantize != WeightQuantization::kNone) {
    absl::StrAppend(&info.fingerprint,
                    config.quantize == WeightQuantization::kInt8 ? "-int8" : "-int4");
  }
  if (files.config().rope.kind == RopeKind::kDynamic) {  // its base follows from the length
    absl::StrAppend(&info.fingerprint, "-rope-", kv.max_model_len);
  }
  info.vocab_size = files.config().vocab_size;
  info.eos_token_ids.assign(files.eos_token_ids().begin(), files.eos_token_ids().end());
  info.bos_token_id = files.config().bos_token_id.value_or(-1);
  info.max_model_len = kv.max_model_len;
  info.max_num_seqs = config.max_num_seqs;
  info.max_num_batched_tokens = config.max_num_batched_tokens;
  info.block_size = config.block_size;
  info.num_blocks = kv.num_blocks;
  info.kv_cache_bytes = kv.layout.block_bytes * kv.num_blocks;
  info.weight_bytes = backend.WeightBytes();
  info.num_layer_weights = weights.num_layer_weights;
  info.num_head_weights = weights.num_head_weights;
  info.default_temperature = static_cast<float>(defaults.temperature.value_or(std::nan("")));
  info.default_top_p = static_cast<float>(defaults.top_p.value_or(std::nan("")));
  info.default_min_p = static_cast<float>(defaults.min_p.value_or(std::nan("")));
  info.default_repetition_penalty =
      static_cast<float>(defaults.repetition_penalty.value_or(std::nan("")));
  info.default_top_k = defaults.top_k.value_or(-1);
  return info;
}

SchedulerConfig MakeSchedulerConfig(const EngineConfig& config, const KvPlan& kv,
                                    const StepLimits& limits, const StepCosts& costs) {
  SchedulerConfig scheduler;
  scheduler.block_size = config.block_size;
  scheduler.num_blocks = kv.num_blocks;
  scheduler.group_windows = kv.layout.GroupWindows();
  scheduler.max_num_seqs = config.max_num_seqs;
  scheduler.max_num_batched_tokens = config.max_num_batched_tokens;
  scheduler.max_logit_rows = limits.max_logit_rows;
  scheduler.max_choices = config.max_choices;
  scheduler.max_model_len = kv.max_model_len;
  scheduler.max_queued_requests = config.max_queued_requests;
  scheduler.max_queued_prefill_tokens = config.max_queued_prefill_tokens > 0
                                            ? config.max_queued_prefill_tokens
                                            : kQueuedPools * kv.num_blocks * config.block_size;
  scheduler.admission = config.admission;
  scheduler.prefix_caching = config.prefix_caching;
  scheduler.target_itl_us = TimeUs{config.target_itl_ms} * 1000;
  scheduler.us_per_step = kCostMargin * costs.us_per_step;
  scheduler.us_per_row = kCostMargin * costs.us_per_row;
  scheduler.us_per_attended = kCostMargin * costs.us_per_attended;
  scheduler.block_shuffle_seed = config.block_shuffle_seed;
  return scheduler;
}

}  // namespace

absl::StatusOr<ModelInfo> Engine::Check(const EngineConfig& config) {
  absl::StatusOr<Opened> opened = OpenAndPlan(config);
  if (!opened.ok()) return opened.status();
  ModelInfo info =
      DescribeModel(*opened->files, *opened->backend, opened->kv, opened->weights, config);
  info.weight_bytes = opened->weights.bytes;
  return info;
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Load(const EngineConfig& config,
                                                     const LoadProgress& progress) {
  Phases phases(progress);
  absl::StatusOr<Opened> opened = OpenAndPlan(config);
  if (!opened.ok()) return opened.status();
  auto& [files, kv, weights, backend] = *opened;
  phases.Done("open model files");

  absl::StatusOr<std::unique_ptr<Transformer>> transformer =
      Transformer::Load(*files, *backend, kv.max_model_len, weights.quantization);
  if (!transformer.ok()) return transformer.status();
  phases.Done("pack weights");

  const StepLimits limits = {.max_num_tokens = config.max_num_batched_tokens,
                             .max_num_seqs = config.max_num_seqs,
                             .max_logit_rows = std::max(config.max_num_seqs, kMinLogitRows),
                             .max_samples = config.max_num_seqs * config.max_choices,
                             .max_model_len = kv.max_model_len};
  const absl::Status reserved = backend->Reserve((*transformer)->shape(), limits);
  if (!reserved.ok()) return reserved;
  absl::StatusOr<std::unique_ptr<KvStorage>> storage =
      KvStorage::Open(kv.layout, kv.num_blocks, backend.get());
  if (!storage.ok()) return storage.status();
  (*storage)->TouchNow(1);  // the block that the measurement reads
  phases.Done("reserve memory");

  absl::StatusOr<StepCosts> costs =
      MeasureStepCosts(*backend, **transformer, (*storage)->spec(), limits);
  if (!costs.ok()) return costs.status();
  phases.Done("measure step costs");

  ModelInfo info = DescribeModel(*files, *backend, kv, weights, config);
  return std::make_unique<EngineLoop>(
      EngineParts{.info = std::move(info),
                  .scheduler_config = MakeSchedulerConfig(config, kv, limits, *costs),
                  .limits = limits,
                  .backend = std::move(backend),
                  .transformer = *std::move(transformer),
                  .kv_storage = *std::move(storage)});
}

}  // namespace quire
