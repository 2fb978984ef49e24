#ifndef QUIRE_KERNELS_CPU_ATTENTION_H_
#define QUIRE_KERNELS_CPU_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/attention_plan.h"
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
// write KV (NormQkvRopeAppend does), nor choose which rows are computed together (AttentionPlan
// does).
//
// Run gives the whole tiles of a phase to the workers, except that the splits of tiles too long for
// one worker are spread over all of them in waves, and merged in order: how tiles are cut and run
// does not change bits.
//
// One per KvGroup. The engine thread calls it; Run uses the pool. All memory is taken by the
// constructor and does not depend on the length of contexts.
class PagedAttention {
 public:
  using Config = AttentionConfig;

  // `pool` outlives this.
  PagedAttention(const Config& config, const AttentionKernels& kernels, ThreadPool* pool);
  PagedAttention(const PagedAttention&) = delete;
  PagedAttention& operator=(const PagedAttention&) = delete;

  // Once per step, before the first Run. REQUIRES: the step is within the config's limits.
  void Plan(const AttentionStep& step);
  // Writes rows [0, query_starts[num_seqs]) of layer.out.
  void Run(const AttentionLayer& layer);

 private:
  using Tile = AttentionTile;
  // Memory of one worker.
  struct Scratch {
    uint16_t* q;  // bf16 [kAttentionTileRows, padded_head_dim]
    AttentionScratch kernel;
    AttentionPartial partial;
    AttentionPartial state;
  };

  void RunPhase(const AttentionLayer& layer, const AttentionPhase& phase);
  void RunTile(const AttentionLayer& layer, const Tile& tile, int worker);
  void RunLongTiles(const AttentionLayer& layer, const AttentionPhase& phase);
  // Merges what slots 0 and up hold: splits [begin, end) of the long tiles, counted together.
  void MergeWave(const AttentionLayer& layer, const AttentionPhase& phase, int tile_idx,
                 int64_t begin, int64_t end);
  // Sets lo, hi and the groups that any row sees.
  void FindVisible(const Tile& tile, int split_start, AttentionSplit* split) const;
  void ComputeSplit(const AttentionLayer& layer, const Tile& tile, int split_idx, int worker,
                    const AttentionPartial& partial);

  // What is known of a tile's rows lies in `whole`, [num_heads, num_rows], where the tile has all
  // of their splits; else in shared_states_, where other tiles of the rows find it.
  AttentionPartial StateOf(const Tile& tile, int head, const AttentionPartial& whole) const;
  AttentionPartial FromRow(const AttentionPartial& partial, int64_t row) const;
  void Start(const Tile& tile, const AttentionPartial& whole);
  void Merge(const Tile& tile, const AttentionPartial& partial, const AttentionPartial& whole);
  void Finish(const AttentionLayer& layer, const Tile& tile, const AttentionPartial& whole);

  // Constant after construction.
  const Config config_;
  const KvBlockShape block_;
  const AttentionKernels& kernels_;
  ThreadPool* const pool_;
  std::vector<float> memory_;                  // what the following point into
  std::vector<Scratch> scratch_;               // [num_threads]
  std::vector<AttentionPartial> slots_;        // partials of a wave
  std::vector<AttentionPartial> long_states_;  // [max_long_tiles]
  AttentionPartial shared_states_;             // [num_kv_heads, max_shared_rows]

  // Of the step.
  AttentionStep step_;
  AttentionPlan plan_;
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ATTENTION_H_
