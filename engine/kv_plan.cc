#include "engine/kv_plan.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "engine/memory_budget.h"
#include "paged_kv/capacity.h"

namespace quire {
namespace {

// Slots are 32-bit numbers, and beyond this the bookkeeping would outweigh what it keeps.
constexpr int64_t kMaxBlocks = 1 << 20;

absl::Status CheckOptions(const EngineConfig& config, const ModelConfig& model) {
  constexpr int kBlockSizes[] = {16, 32, 64, 128, 256};
  if (std::find(std::begin(kBlockSizes), std::end(kBlockSizes), config.block_size) ==
      std::end(kBlockSizes)) {
    return absl::FailedPreconditionError(
        absl::StrCat("--block-size is ", config.block_size, "; it must be 16, 32, 64, 128 or 256"));
  }
  if (config.max_num_seqs < 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("--max-num-seqs is ", config.max_num_seqs, "; it must be at least 1"));
  }
  if (config.max_num_batched_tokens <= config.max_num_seqs) {
    return absl::FailedPreconditionError(
        absl::StrCat("--max-num-batched-tokens is ", config.max_num_batched_tokens,
                     "; it must be more than --max-num-seqs (", config.max_num_seqs,
                     "), so that every running sequence gets a token in every step"));
  }
  if (config.max_model_len < 0 || config.max_model_len > LongestModelLen(model)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--max-model-len is ", config.max_model_len, "; the model was made for at most ",
        LongestModelLen(model), " tokens (max_position_embeddings",
        model.rope.kind == RopeKind::kDynamic ? ", stretched by the factor of its rope)" : ")"));
  }
  return absl::OkStatus();
}

}  // namespace

KvModel KvModelOf(const ModelConfig& model, int64_t longest) {
  KvModel kv;
  kv.num_layers = model.num_layers;
  kv.num_kv_heads = model.num_kv_heads;
  kv.head_dim = model.head_dim;
  kv.layer_windows = model.layer_windows;
  for (int32_t& window : kv.layer_windows) window = window < longest ? window : 0;
  return kv;
}

absl::StatusOr<KvPlan> PlanKv(const EngineConfig& config, const ModelConfig& model,
                              int64_t available_bytes, int64_t weight_bytes) {
  if (absl::Status status = CheckOptions(config, model); !status.ok()) return status;
  KvPlan plan;
  const int64_t wanted = config.max_model_len > 0 ? config.max_model_len : LongestModelLen(model);
  plan.layout = MakeKvLayout(KvModelOf(model, wanted), config.block_size);
  const int64_t left = available_bytes - weight_bytes;
  if (left <= 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the weights take ", weight_bytes, " bytes (", BytesText(weight_bytes),
                     "), but only ", available_bytes, " (", BytesText(available_bytes),
                     ") are available; give the process more memory, or serve a smaller model"));
  }
  const int64_t bytes =
      config.kv_cache_bytes > 0 ? config.kv_cache_bytes : DefaultKvCacheBytes(left);
  if (bytes > left) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "--kv-cache asks for ", bytes, " bytes (", BytesText(bytes), "), but only ", left, " (",
        BytesText(left), ") are left beside the weights; lower --kv-cache"));
  }
  plan.num_blocks = static_cast<int32_t>(std::min(kMaxBlocks, bytes / plan.layout.block_bytes));
  plan.max_model_len =
      static_cast<int32_t>(LongestSequence(plan.layout.GroupWindows(), config.block_size,
                                           plan.num_blocks, config.max_num_batched_tokens, wanted));
  if (plan.max_model_len < 2) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a KV cache of ", bytes, " bytes holds ", plan.num_blocks, " blocks of ",
        plan.layout.block_bytes, " bytes, too few for one sequence; raise --kv-cache"));
  }
  return plan;
}

}  // namespace quire
