#ifndef QUIRE_KERNELS_CPU_ATTENTION_H_
#define QUIRE_KERNELS_CPU_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kv_block.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/numerics_mode.h"

// Definition (reference/attention.h has it as code). For one row, a (token, q head) pair, at
// position `pos`, the visible tokens are [max(0, pos + 1 - window), pos + 1); window 0 means all.
// Tokens are cut in splits of 256 at absolute positions. Per split with a visible token:
//   s[t] = dot(q, k[t]) * scale     fp32; the dot is that of gemm.h for bf16, in the mode, over
//                                   padded_head_dim
//   m = max s[t], p[t] = exp(s[t] - m), l = Sum16 of p, lane = t mod 16
//   o[d] = sum over visible t of rne_bf16(p[t]) * v[t][d], in the order of gemm.h over pairs of
//          tokens (2i, 2i + 1), or in mode bf16x32 over blocks (32i .. 32i + 31), an invisible
//          token of a pair or block skipped; then o[d] = o[d] + 0
// Splits merge in ascending order into (M, L, O), the first one by copy:
//   N = max(M, m), a = exp(M - N), b = exp(m - N)
//   L = fma(l, b, L * a), O[d] = fma(o[d], b, O[d] * a), M = N
// The result is rne_bf16(O[d] / L).
//
// Why "+ 0": fast paths give an invisible token of a group the weight zero instead of skipping it.
// Such a product is +0 or -0 (V is finite) and leaves every accumulator as it is, except that it
// may turn a -0 into +0; -0 appears where a sum underflows and is flushed. The addition makes
// both +0, so nothing depends on the content of invisible slots.

namespace quire {

struct AttentionShape {
  int num_heads = 0;
  int num_kv_heads = 0;  // divides num_heads
  int head_dim = 0;
  float scale = 0;  // 1 / sqrt(head_dim)
};

// What a step asks of the layers of one KvGroup. Spans stay valid until the last Run of the step.
struct AttentionStep {
  absl::Span<const int32_t> positions;     // [num_tokens]
  absl::Span<const int32_t> query_starts;  // [num_seqs + 1], rows of each sequence
  absl::Span<const int32_t> block_tables;  // [num_seqs, max_blocks], -1: nothing visible there
  int max_blocks = 0;
};

// One layer. Every sequence's K and V of this step have been appended.
struct AttentionLayer {
  // bf16 [num_tokens, num_heads, padded_head_dim], dims past head_dim zero.
  const uint16_t* q = nullptr;
  // Block b starts at kv + b * block_bytes.
  const std::byte* kv = nullptr;
  int layer_in_group = 0;
  // bf16 [num_tokens, out_stride]: head h at columns [h * head_dim, (h + 1) * head_dim).
  uint16_t* out = nullptr;
  int64_t out_stride = 0;
};

// REQUIRES: the machine runs `isa`.
const AttentionKernels& AttentionKernelsFor(CpuIsa isa, NumericsMode mode);

// PagedAttention answers: what do this step's queries see in the KV cache? It reads K and V where
// they lie, through the block tables, for prompt chunks and generated tokens alike. It does not
// write KV (NormQkvRopeAppend does).
//
// A tile is up to kAttentionTileRows rows (token, q head) of one sequence: some rows of one kv
// head, or, where a kv head has few rows, those of several kv heads, which lie side by side in a
// block. Plan cuts a step into tiles, long ones first. Run gives whole tiles to the workers, except
// that the splits of tiles too long for one worker are spread over all of them in waves, and merged
// in order: how tiles are cut and run does not change bits.
//
// One per KvGroup. The engine thread calls it; Run uses the pool. All memory is taken by the
// constructor and does not depend on the length of contexts.
class PagedAttention {
 public:
  struct Config {
    AttentionShape shape;
    int block_size = 0;  // multiple of 16 that divides 256
    int64_t block_bytes = 0;
    int window = 0;  // 0: all
    int max_num_tokens = 0;
    int max_num_seqs = 0;
  };

  // `pool` outlives this.
  PagedAttention(const Config& config, const AttentionKernels& kernels, ThreadPool* pool);
  PagedAttention(const PagedAttention&) = delete;
  PagedAttention& operator=(const PagedAttention&) = delete;

  // Once per step, before the first Run. REQUIRES: the step is within the config's limits.
  void Plan(const AttentionStep& step);
  // Writes rows [0, query_starts[num_seqs]) of layer.out.
  void Run(const AttentionLayer& layer);

 private:
  struct Tile {
    int32_t seq;
    int32_t first_head;   // of the kv heads
    int32_t num_heads;    // all have the same rows
    int32_t first_row;    // among the rows of (seq, kv head): token * group_size + head in group
    int32_t num_rows;     // num_heads * num_rows is at most kAttentionTileRows
    int32_t end;          // past the last token that any row sees
    int32_t first_split;  // of those that any row sees
    int32_t num_splits;
    int64_t cost;
  };
  // Memory of one worker.
  struct Scratch {
    uint16_t* q;  // bf16 [kAttentionTileRows, padded_head_dim]
    AttentionScratch kernel;
    AttentionPartial partial;
    AttentionPartial state;
  };

  void AddTiles(int seq);
  void RunTile(const AttentionLayer& layer, const Tile& tile, int worker);
  void RunLongTiles(const AttentionLayer& layer);
  // Merges what slots 0 and up hold: splits [begin, end) of the long tiles, counted together.
  void MergeWave(const AttentionLayer& layer, int tile_idx, int64_t begin, int64_t end);
  // Sets lo, hi and the groups that any row sees.
  void FindVisible(const Tile& tile, int split_start, AttentionSplit* split) const;
  void ComputeSplit(const AttentionLayer& layer, const Tile& tile, int split_idx, int worker,
                    const AttentionPartial& partial);
  void Finish(const AttentionLayer& layer, const Tile& tile, const AttentionPartial& state);
  // Token (row of the step) and q head of a tile's row.
  int TokenOf(const Tile& tile, int row) const;
  int HeadOf(const Tile& tile, int kv_head, int row) const;

  // Constant after construction.
  const Config config_;
  const KvBlockShape block_;
  const int group_size_;  // q heads per kv head
  const AttentionKernels& kernels_;
  ThreadPool* const pool_;
  std::vector<float> memory_;                  // what the following point into
  std::vector<Scratch> scratch_;               // [num_threads]
  std::vector<AttentionPartial> slots_;        // partials of a wave
  std::vector<AttentionPartial> long_states_;  // [most long tiles]

  // Of the step.
  AttentionStep step_;
  std::vector<Tile> tiles_;  // long ones first
  int num_long_tiles_ = 0;
  std::vector<int64_t> split_starts_;  // [num_long_tiles + 1]: splits of long tiles before each
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ATTENTION_H_
