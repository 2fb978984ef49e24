#ifndef QUIRE_KERNELS_CPU_ATTENTION_KERNELS_H_
#define QUIRE_KERNELS_CPU_ATTENTION_KERNELS_H_

#include <stdint.h>

#include "kernels/cpu/kv_block.h"

// What attention.h and the objects of each instruction set share.

namespace quire {

// Rows (token, q head) that one kernel call works on, all of one kv head.
inline constexpr int kAttentionTileRows = 32;

// A tile over one split of 256 tokens.
struct AttentionSplit {
  const uint16_t* q = nullptr;  // bf16 [num_rows, padded_head_dim]
  int num_rows = 0;
  int padded_head_dim = 0;
  float scale = 0;
  // Row r sees tokens [lo[r], hi[r]) of the split; none where hi <= lo. All within
  // [16 * group_begin, 16 * group_end).
  int lo[kAttentionTileRows];
  int hi[kAttentionTileRows];
  int group_begin = 0;
  int group_end = 0;
  // Where K and V of each group of 16 tokens lie, [group_begin, group_end).
  const uint16_t* k[kKvGroupsPerSplit];
  const uint16_t* v[kKvGroupsPerSplit];
  // K that will be read next, to be fetched meanwhile; any readable address where there is none.
  const uint16_t* next_k[kKvGroupsPerSplit];
};

// What is known of each row after some splits. l[r] == 0: nothing yet.
struct AttentionPartial {
  float* m;  // [num_rows]
  float* l;  // [num_rows]
  float* o;  // [num_rows, padded_head_dim]
};

// Memory that compute_split works in.
struct AttentionScratch {
  float* scores;    // [kAttentionTileRows, 256]
  uint16_t* probs;  // [kAttentionTileRows, 256]
};

struct AttentionKernels {
  // partial = that of one split.
  void (*compute_split)(const AttentionSplit& split, const AttentionScratch& scratch,
                        const AttentionPartial& partial);
  // state = state merged with the partial of the next split.
  void (*merge)(const AttentionPartial& partial, int num_rows, int padded_head_dim,
                const AttentionPartial& state);
  // out[r] = rne_bf16(o[r] / l[r]), [head_dim].
  void (*finish)(const AttentionPartial& state, int num_rows, int head_dim, int padded_head_dim,
                 uint16_t* const* out);
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ATTENTION_KERNELS_H_
