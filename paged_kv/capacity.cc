#include "paged_kv/capacity.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "kernels/check.h"

namespace quire {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

int64_t KvBytesPerToken(const KvModel& model) {
  return int64_t{2} *                     // a key and a value
         model.num_layers *               // in every layer
         model.num_kv_heads *             // for every KV head (GQA shares them among queries)
         StoredHeadDim(model.head_dim) *  // as stored
         model.elem_bytes;
}

int64_t KvBytes(const KvModel& model, int64_t num_tokens, int64_t num_seqs) {
  const int64_t layer_bytes = KvBytesPerToken(model) / model.num_layers;  // per token
  int64_t bytes = 0;
  for (int32_t layer = 0; layer < model.num_layers; ++layer) {
    const int64_t window = model.layer_windows.empty() ? 0 : model.layer_windows[layer];
    const int64_t kept = window == 0 ? num_tokens : std::min(num_tokens, window);
    bytes += layer_bytes *  // of this layer
             kept *         // tokens that a later query still sees
             num_seqs;
  }
  return bytes;
}

int32_t FirstVisibleBlock(int32_t window, int32_t position, int32_t block_size) {
  return window == 0 ? 0 : std::max(0, position - window + 1) / block_size;
}

int64_t GroupBlocksAtMost(int32_t window, int32_t block_size, int64_t num_tokens,
                          int64_t max_chunk) {
  const int64_t whole = CeilDiv(num_tokens, block_size);
  if (window == 0) return whole;
  const int64_t seen = int64_t{window} - 1 +               // before the first row of the step
                       max_chunk;                          // its rows
  const int64_t touched = CeilDiv(seen - 1, block_size) +  // when it begins at a block's last slot
                          1;                               // that first block
  return std::min(whole, touched);
}

int64_t BlocksAtMost(absl::Span<const int32_t> group_windows, int32_t block_size,
                     int64_t num_tokens, int64_t max_chunk) {
  int64_t blocks = 0;
  for (const int32_t window : group_windows) {
    blocks += GroupBlocksAtMost(window, block_size, num_tokens, max_chunk);
  }
  return blocks;
}

int64_t LongestSequence(absl::Span<const int32_t> group_windows, int32_t block_size,
                        int64_t num_blocks, int64_t max_chunk, int64_t limit) {
  int64_t fits = 0;
  int64_t too_long = limit + 1;
  while (too_long - fits > 1) {
    const int64_t middle = fits + (too_long - fits) / 2;
    const bool ok = BlocksAtMost(group_windows, block_size, middle, max_chunk) <= num_blocks;
    (ok ? fits : too_long) = middle;
  }
  return fits;
}

KvCapacity PlanKvCapacity(const KvLayout& layout, int64_t bytes, int64_t num_tokens,
                          int64_t num_seqs, int64_t max_chunk) {
  QUIRE_CHECK(bytes >= 0 && num_tokens > 0 && num_seqs > 0, "positive sizes");
  const std::vector<int32_t> windows = layout.GroupWindows();
  KvCapacity plan;
  plan.num_blocks = bytes / layout.block_bytes;
  plan.num_tokens = plan.num_blocks / static_cast<int64_t>(windows.size()) * layout.block_size;
  plan.blocks_per_seq = BlocksAtMost(windows, layout.block_size, num_tokens, max_chunk);
  plan.seqs_that_fit = plan.num_blocks / plan.blocks_per_seq;
  plan.bytes_needed = layout.block_bytes *   // one block
                      plan.blocks_per_seq *  // of one sequence
                      num_seqs;
  if (plan.seqs_that_fit >= num_seqs) return plan;
  const int64_t shorter = LongestSequence(windows, layout.block_size, plan.num_blocks / num_seqs,
                                          max_chunk, num_tokens);
  plan.advice = absl::StrCat(plan.seqs_that_fit, " of ", num_seqs, " sequences of ", num_tokens,
                             " tokens fit in ", BytesText(bytes), " of KV cache; --kv-cache-bytes ",
                             BytesText(plan.bytes_needed), " holds them all");
  if (shorter > 0) {
    absl::StrAppend(&plan.advice, ", or --max-model-len ", shorter, " with the memory there is");
  }
  return plan;
}

std::string BytesText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024) {
    value /= 1024;
    ++unit;
  }
  const bool is_whole = value == static_cast<double>(static_cast<int64_t>(value));
  return absl::StrFormat("%.*f %s", is_whole ? 0 : 1, value, kUnits[unit]);
}

}  // namespace quire
