#ifndef QUIRE_PAGED_KV_BLOCK_TABLE_H_
#define QUIRE_PAGED_KV_BLOCK_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

#include "paged_kv/block_pool.h"

namespace quire {

// BlockTable says which block of each KvGroup has the slot of a sequence's position: position p
// is in slot p % block_size of block ids()[group][p / block_size].
// It holds the blocks that it lists; which positions are written is the sequence's business.
//
// All groups have the same number of entries. An entry is kNoBlock where a window group's block
// was given back, or was never taken because it lay out of the window; those come first.
//
// Owned by a Sequence, engine thread only. Within what was reserved nothing allocates.
class BlockTable {
 public:
  explicit BlockTable(int32_t num_groups) : ids_(num_groups), first_held_(num_groups) {}

  // Takes memory for so many entries per group. O(num_blocks).
  void Reserve(int32_t num_blocks);
  // Adds one entry per group. The caller's holders become the table's.
  void Append(absl::Span<const BlockId> blocks);  // [num_groups]
  // Drops the blocks of `group` with indices below `block_idx`.
  void DropBefore(int32_t group, int32_t block_idx, StepId last_step, BlockPool* pool);
  // Drops everything, the last blocks first, so that a shared prefix outlives its tail.
  void DropAll(StepId last_step, BlockPool* pool);

  int32_t num_groups() const { return static_cast<int32_t>(ids_.size()); }
  // Entries per group, given back or not.
  int32_t num_blocks() const { return static_cast<int32_t>(ids_[0].size()); }
  // All entries of the group before this one are kNoBlock.
  int32_t first_held(int32_t group) const { return first_held_[group]; }
  BlockId at(int32_t group, int32_t block_idx) const { return ids_[group][block_idx]; }
  absl::Span<const std::vector<BlockId>> ids() const { return ids_; }  // [num_groups, num_blocks]

 private:
  // In place for as many groups as most models have: every step looks at every table.
  absl::InlinedVector<std::vector<BlockId>, 2> ids_;  // [num_groups, num_blocks]
  absl::InlinedVector<int32_t, 2> first_held_;        // [num_groups]
};

}  // namespace quire

#endif  // QUIRE_PAGED_KV_BLOCK_TABLE_H_
