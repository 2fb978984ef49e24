#include "engine/memory_plan.h"

#include "absl/strings/str_cat.h"

#include "engine/kv_plan.h"
#include "paged_kv/capacity.h"
#include "paged_kv/kv_layout.h"

namespace quire {
namespace {

constexpr int64_t kHeldBytesPerParameter = 2;  // bf16

int64_t NumParameters(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const int64_t mlp = config.intermediate_size;
  const int64_t q_rows = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_rows = int64_t{config.num_kv_heads} * config.head_dim;
  int64_t layer = hidden * (q_rows + 2 * kv_rows) +  // q, k, v
                  q_rows * hidden +                  // output projection
                  3 * hidden * mlp +                 // gate, up, down
                  2 * hidden;                        // two norms
  if (config.qkv_bias) layer += q_rows + 2 * kv_rows;
  if (config.out_bias) layer += hidden;
  if (config.qk_norm) layer += int64_t{2} * config.head_dim;
  if (config.mlp_bias) layer += 2 * mlp + hidden;
  const int64_t embeddings = int64_t{config.vocab_size} * hidden;
  return config.num_layers * layer + embeddings * (config.tie_word_embeddings ? 1 : 2) +
         hidden;  // final norm
}

absl::Status CheckDemand(const ModelConfig& config, const MemoryDemand& demand) {
  if (demand.num_tokens < 1 || demand.num_seqs < 1 || demand.block_size < 1 ||
      demand.kv_elem_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot plan memory for ", demand.num_seqs, " sequences of ",
                     demand.num_tokens, " tokens in blocks of ", demand.block_size, " with ",
                     demand.kv_elem_bytes, " bytes an element; expected numbers above 0"));
  }
  // Every sum below is at most this one, which a double holds well enough to compare.
  const double most = 2.0 * config.num_layers * config.num_heads * StoredHeadDim(config.head_dim) *
                      demand.kv_elem_bytes *
                      (static_cast<double>(demand.num_tokens) + demand.block_size) *
                      static_cast<double>(demand.num_seqs);
  if (most < 0x1p62) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(demand.num_seqs, " sequences of ",
                                                 demand.num_tokens,
                                                 " tokens need more than 4 EiB of KV cache"));
}

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(const ModelConfig& config, const MemoryDemand& demand) {
  if (absl::Status status = CheckDemand(config, demand); !status.ok()) return status;
  KvModel model = KvModelOf(config, demand.num_tokens);
  model.elem_bytes = demand.kv_elem_bytes;
  KvModel mha = model;
  mha.num_kv_heads = config.num_heads;
  const KvLayout layout = MakeKvLayout(model, demand.block_size);
  const KvCapacity capacity =
      PlanKvCapacity(layout, /*bytes=*/0, demand.num_tokens, demand.num_seqs, demand.max_chunk);

  MemoryPlan plan;
  plan.num_parameters = NumParameters(config);
  plan.weight_bytes = plan.num_parameters * kHeldBytesPerParameter;
  plan.kv_bytes_per_token = KvBytesPerToken(model);
  plan.kv_bytes_per_token_mha = KvBytesPerToken(mha);
  plan.kv_bytes = KvBytes(model, demand.num_tokens, demand.num_seqs);
  plan.block_bytes = layout.block_bytes;
  plan.blocks_per_seq = capacity.blocks_per_seq;
  plan.num_blocks = capacity.blocks_per_seq * demand.num_seqs;
  plan.kv_pool_bytes = capacity.bytes_needed;
  return plan;
}

}  // namespace quire
