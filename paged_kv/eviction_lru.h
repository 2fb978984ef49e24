#ifndef QUIRE_PAGED_KV_EVICTION_LRU_H_
#define QUIRE_PAGED_KV_EVICTION_LRU_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "paged_kv/eviction_policy.h"

namespace quire {

// Gives up what was used longest ago. Uses are ordered by the order of the calls, so that blocks
// used at the same time leave in a fixed order. O(log candidates) per call, no allocation.
class LruEviction : public EvictionPolicy {
 public:
  explicit LruEviction(int32_t num_blocks);

  void Use(BlockId block, uint64_t hash, int64_t now_us) override;
  void Offer(BlockId block) override;
  void Withdraw(BlockId block) override;
  void Forget(BlockId block) override;
  BlockId Next(int64_t now_us) const override;

 private:
  struct Block {
    uint64_t last_use = 0;  // 0: unknown
    int32_t heap_idx = -1;  // in candidates_; -1: not offered
  };

  // Moves the candidate at `heap_idx` to where it belongs.
  void Restore(int32_t heap_idx);
  void Place(int32_t heap_idx, BlockId id);
  bool IsOlder(BlockId a, BlockId b) const { return blocks_[a].last_use < blocks_[b].last_use; }

  std::vector<Block> blocks_;  // [num_blocks]
  // A heap: each is older than those at 2 i + 1 and 2 i + 2, so the oldest comes first.
  std::vector<BlockId> candidates_;
  uint64_t num_uses_ = 0;
};

}  // namespace quire

#endif  // QUIRE_PAGED_KV_EVICTION_LRU_H_
