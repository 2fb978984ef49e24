#include "paged_kv/block_table.h"

#include <algorithm>

#include "kernels/check.h"
#include "paged_kv/reserve_touched.h"

namespace quire {

void BlockTable::Reserve(int32_t num_blocks) {
  for (std::vector<BlockId>& ids : ids_) ReserveTouched(num_blocks, &ids);
}

void BlockTable::Append(absl::Span<const BlockId> blocks) {
  QUIRE_CHECK(blocks.size() == ids_.size(), "one entry per group");
  for (int32_t group = 0; group < num_groups(); ++group) {
    if (blocks[group] != kNoBlock) continue;
    QUIRE_CHECK(first_held_[group] == num_blocks(), "absent blocks come first");
    ++first_held_[group];
  }
  for (int32_t group = 0; group < num_groups(); ++group) ids_[group].push_back(blocks[group]);
}

void BlockTable::DropBefore(int32_t group, int32_t block_idx, StepId last_step, BlockPool* pool) {
  std::vector<BlockId>& ids = ids_[group];
  const int32_t end = std::min(block_idx, num_blocks());
  for (int32_t& i = first_held_[group]; i < end; ++i) {
    pool->Drop(ids[i], last_step);
    ids[i] = kNoBlock;
  }
}

void BlockTable::DropAll(StepId last_step, BlockPool* pool) {
  for (int32_t i = num_blocks() - 1; i >= 0; --i) {
    for (const std::vector<BlockId>& ids : ids_) {
      if (ids[i] != kNoBlock) pool->Drop(ids[i], last_step);
    }
  }
  for (std::vector<BlockId>& ids : ids_) ids.clear();
  std::fill(first_held_.begin(), first_held_.end(), 0);
}

}  // namespace quire
