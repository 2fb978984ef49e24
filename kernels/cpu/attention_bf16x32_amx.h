#ifndef QUIRE_KERNELS_CPU_ATTENTION_BF16X32_AMX_H_
#define QUIRE_KERNELS_CPU_ATTENTION_BF16X32_AMX_H_

// The kernels of attention_kernels.h in mode `bf16x32` by AMX. attention.h has the definition.

#include <stdint.h>

#include "kernels/cpu/amx_products.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/attention_softmax.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

static_assert(kAttentionTileRows <= 2 * kTileSide);

// 32 tokens at an absolute position are two groups; of the first and the last such block a group
// may be seen by no row.
inline constexpr int kBlockTokens = 2 * kKvGroupTokens;

QUIRE_INLINE bool IsSeen(const AttentionSplit& split, int group) {
  return group >= split.group_begin && group < split.group_end;
}

// Asks for K or V of a block to be brought into the L2 cache.
QUIRE_INLINE void FetchBlock(const AttentionSplit& split, const uint16_t* const* groups,
                             int block) {
  const int num_lines = split.padded_head_dim * kKvGroupTokens / kLineElems;
  for (int group = 2 * block; group < 2 * block + 2; ++group) {
    if (!IsSeen(split, group)) continue;
    for (int line = 0; line < num_lines; ++line) {
      __builtin_prefetch(groups[group] + line * kLineElems, /*rw=*/0, /*locality=*/2);
    }
  }
}

// Scores of groups 2 * block and the next, not yet scaled. In the place of a group that is not
// seen, whose K may lie nowhere, the other one is computed again; nobody reads those scores.
template <bool kTwo>
QUIRE_INLINE void ScoreBlock(const AttentionSplit& split, int block, float* scores) {
  const int left = IsSeen(split, 2 * block) ? 2 * block : 2 * block + 1;
  const int right = IsSeen(split, 2 * block + 1) ? 2 * block + 1 : left;
  ZeroSums<kTwo>();
  for (int dim = 0; dim < split.padded_head_dim; dim += 32) {
    const int64_t at = dim * kKvGroupTokens;
    AddProducts<kTwo>(split.q + dim, split.padded_head_dim, split.k[left] + at, split.k[right] + at,
                      2 * kKvGroupTokens);
  }
  StoreSums<kTwo>(scores + block * kBlockTokens, kKvSplitTokens);
}

// V of a block's tokens and 32 dims from `dim` on, gathered where the two groups do not follow each
// other in memory: bf16 [16 pairs of tokens, 32 dims, 2], zero where a group is not seen.
struct ValueBlock {
  alignas(64) uint16_t v[16 * 64];

  QUIRE_INLINE void Gather(const AttentionSplit& split, int block, int dim) {
    for (int pair = 0; pair < 16; ++pair) {
      const int group = 2 * block + pair / 8;
      uint16_t* const to = v + pair * 64;
      if (IsSeen(split, group)) {
        __builtin_memcpy(to, split.v[group] + (pair % 8 * split.padded_head_dim + dim) * 2, 128);
      } else {
        __builtin_memset(to, 0, 128);
      }
    }
  }
};

// out of 32 dims, from `dim` on. REQUIRES: probs of groups that are not seen are zero.
template <bool kTwo>
QUIRE_INLINE void WeighBlock(const AttentionSplit& split, int dim, const uint16_t* probs,
                             float* out) {
  ValueBlock gathered;
  ZeroSums<kTwo>();
  for (int block = split.group_begin / 2; 2 * block < split.group_end; ++block) {
    const uint16_t* const p = probs + block * kBlockTokens;
    const bool both = IsSeen(split, 2 * block) && IsSeen(split, 2 * block + 1);
    const int64_t group_elems = int64_t{kKvGroupTokens} * split.padded_head_dim;
    if (both && split.v[2 * block + 1] == split.v[2 * block] + group_elems) {
      const uint16_t* const v = split.v[2 * block] + 2 * dim;
      AddProducts<kTwo>(p, kKvSplitTokens, v, v + 32, 2 * split.padded_head_dim);
    } else {
      gathered.Gather(split, block, dim);
      AddProducts<kTwo>(p, kKvSplitTokens, gathered.v, gathered.v + 32, 64);
    }
  }
  StoreSums<kTwo>(out + dim, split.padded_head_dim);
}

// Completes the first and the last block of 32 tokens.
QUIRE_INLINE void ClearUnseenProbs(const AttentionSplit& split, uint16_t* probs) {
  for (int row = 0; row < split.num_rows; ++row) {
    uint16_t* const p = probs + row * kKvSplitTokens;
    if (split.group_begin % 2 == 1) StoreBf16(p + (split.group_begin - 1) * 16, Zero16());
    if (split.group_end % 2 == 1) StoreBf16(p + split.group_end * 16, Zero16());
  }
}

// Few rows wait for memory; many come again and again, and find K and V in the cache.
template <bool kTwo>
QUIRE_INLINE void ComputeRowsByTiles(const AttentionSplit& split, const AttentionScratch& scratch,
                                     const AttentionPartial& partial) {
  for (int block = split.group_begin / 2; 2 * block < split.group_end; ++block) {
    if constexpr (!kTwo) FetchBlock(split, split.v, block);
    ScoreBlock<kTwo>(split, block, scratch.scores);
  }
  Softmax(split, scratch, partial);
  ClearUnseenProbs(split, scratch.probs);
  if constexpr (!kTwo) {
    for (int block = split.group_begin / 2; 2 * block < split.group_end; ++block) {
      FetchBlock(split, split.next_k, block);
    }
  }
  for (int dim = 0; dim < split.padded_head_dim; dim += 32) {
    WeighBlock<kTwo>(split, dim, scratch.probs, partial.o);
  }
}

static void ComputeSplitByTiles(const AttentionSplit& split, const AttentionScratch& scratch,
                                const AttentionPartial& partial) {
  ConfigureProducts(split.num_rows);
  if (split.num_rows <= kTileSide) {
    ComputeRowsByTiles<false>(split, scratch, partial);
  } else {
    ComputeRowsByTiles<true>(split, scratch, partial);
  }
  ReleaseTiles();
  for (int i = 0; i < split.num_rows * split.padded_head_dim; i += 16) {
    // + 0: see attention.h.
    Store(partial.o + i, Load(partial.o + i) + Zero16());
  }
}

// One definition: one source includes this file, and one of tests.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const AttentionKernels kBf16x32AttentionKernels = {ComputeSplitByTiles, MergeSplit,
                                                          FinishRows};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ATTENTION_BF16X32_AMX_H_
