#include "server/cli/model_summary.h"

#include "absl/strings/str_format.h"

#include "paged_kv/capacity.h"

namespace quire::cli {

std::string SummaryOf(const ModelInfo& info) {
  return absl::StrFormat(
      "%s, %s weights, %s as held; on %s; KV cache %d blocks of %d tokens = %d "
      "tokens, %s; max sequences %d, max length %d",
      info.architecture, info.weight_format, BytesText(info.weight_bytes), info.backend,
      info.num_blocks, info.block_size, int64_t{info.num_blocks} * info.block_size,
      BytesText(info.kv_cache_bytes), info.max_num_seqs, info.max_model_len);
}

}  // namespace quire::cli
