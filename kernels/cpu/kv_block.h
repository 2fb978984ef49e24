#ifndef QUIRE_KERNELS_CPU_KV_BLOCK_H_
#define QUIRE_KERNELS_CPU_KV_BLOCK_H_

#include <stdint.h>

#include "kernels/cpu/isa_target.h"

// Where the key and value elements of a token lie inside a KV block of the CPU backend.
//
// A block is bf16 [num_layers, K|V, num_kv_heads, block_size * padded_head_dim]. Inside the last
// dimension tokens come in groups of 16, so that a vector of 16 lanes reads it without a shuffle:
//   K  [block_size / 16][padded_head_dim / 2][16 tokens][2 dims]   lanes over tokens: q * k
//   V  [block_size / 2][padded_head_dim][2 tokens]                 lanes over dims:   p * v
// A group of 16 tokens takes 16 * padded_head_dim consecutive elements in both.
//
// Dims [head_dim, padded_head_dim) of K must be zero in every slot that is visible to a query.
// Values of slots that are not visible must be finite: whoever appends to slot 0 clears the V of
// the block, for each (layer, kv head) that it writes. K of invisible slots may be anything.

namespace quire {

// Attention processes keys in groups of 16 tokens, and cuts them in splits of 256 at absolute
// positions; 256 % block_size == 0 and block_size % 16 == 0.
inline constexpr int kKvGroupTokens = 16;
inline constexpr int kKvSplitTokens = 256;
inline constexpr int kKvGroupsPerSplit = kKvSplitTokens / kKvGroupTokens;

QUIRE_INLINE constexpr int PaddedHeadDim(int head_dim) { return (head_dim + 31) / 32 * 32; }

struct KvBlockShape {
  int num_kv_heads = 0;
  int block_size = 0;
  int padded_head_dim = 0;
};

// Elements of K (or V) of one (layer, kv head) in a block: consecutive.
QUIRE_INLINE constexpr int64_t KvHeadElems(const KvBlockShape& shape) {
  return static_cast<int64_t>(shape.block_size) * shape.padded_head_dim;
}

// Elements of one layer, K and V.
QUIRE_INLINE constexpr int64_t KvLayerElems(const KvBlockShape& shape) {
  return 2 * shape.num_kv_heads * KvHeadElems(shape);
}

// First element of K of (layer, kv_head), counted from the start of the block.
QUIRE_INLINE constexpr int64_t KvKeyBase(const KvBlockShape& shape, int layer_in_group,
                                         int kv_head) {
  return layer_in_group * KvLayerElems(shape) + kv_head * KvHeadElems(shape);
}

// First element of V of (layer, kv_head), counted from the start of the block.
QUIRE_INLINE constexpr int64_t KvValueBase(const KvBlockShape& shape, int layer_in_group,
                                           int kv_head) {
  return KvKeyBase(shape, layer_in_group, shape.num_kv_heads + kv_head);
}

// Element (slot, dim) counted from KvKeyBase. Dims 2i and 2i + 1 are neighbours; the next pair of
// dims is 32 elements on.
QUIRE_INLINE constexpr int64_t KvKeyElem(const KvBlockShape& shape, int slot, int dim) {
  return static_cast<int64_t>(slot / kKvGroupTokens) * kKvGroupTokens * shape.padded_head_dim +
         dim / 2 * (2 * kKvGroupTokens) + slot % kKvGroupTokens * 2 + dim % 2;
}

// Element (slot, dim) counted from KvValueBase. The next dim is 2 elements on.
QUIRE_INLINE constexpr int64_t KvValueElem(const KvBlockShape& shape, int slot, int dim) {
  return static_cast<int64_t>(slot / 2) * 2 * shape.padded_head_dim + dim * 2 + slot % 2;
}

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_KV_BLOCK_H_
