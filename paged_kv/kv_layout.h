#ifndef QUIRE_PAGED_KV_KV_LAYOUT_H_
#define QUIRE_PAGED_KV_KV_LAYOUT_H_

#include <cstdint>
#include <vector>

namespace quire {

// What the size of a model's KV cache depends on, as plain numbers.
struct KvModel {
  int32_t num_layers = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t elem_bytes = 2;  // bf16
  // [num_layers], or empty when all layers see everything: tokens that a query of the layer sees,
  // itself included; 0: all.
  std::vector<int32_t> layer_windows;
};

// Layers that see the same span of tokens and share blocks.
struct KvGroup {
  int32_t window = 0;  // 0: all
  std::vector<int32_t> layers;
};

// KvLayout says how a model's layers are cut into groups, and how large a block is: one contiguous
// span for `block_size` tokens of all layers of its group,
//   [num_layers of the group, K|V, num_kv_heads, block_size, padded_head_dim] elements.
// The inner arrangement is the backend's.
//
// There is one pool, so all groups have blocks of the same bytes: `layers_per_block` layers, of
// which a group may leave some unused. A model whose layers are all alike has one group.
struct KvLayout {
  int32_t block_size = 0;  // token slots
  int32_t padded_head_dim = 0;
  int32_t layers_per_block = 0;
  int64_t block_bytes = 0;
  std::vector<KvGroup> groups;
  std::vector<int32_t> group_of_layer;  // [num_layers]
  std::vector<int32_t> index_in_group;  // [num_layers]

  std::vector<int32_t> GroupWindows() const;  // [num_groups]
};

// head_dim as stored: rounded up to a multiple of 32, the rest is zero.
int32_t StoredHeadDim(int32_t head_dim);

// REQUIRES: positive dimensions whose product fits in 63 bits; block_size > 0.
KvLayout MakeKvLayout(const KvModel& model, int32_t block_size);

}  // namespace quire

#endif  // QUIRE_PAGED_KV_KV_LAYOUT_H_
