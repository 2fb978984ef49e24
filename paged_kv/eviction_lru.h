#ifndef QUIRE_PAGED_KV_EVICTION_LRU_H_
#define QUIRE_PAGED_KV_EVICTION_LRU_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"

#include "paged_kv/eviction_policy.h"

namespace quire {

// Gives up what was used longest ago. Uses are ordered by the order of the calls, so that blocks
// used at the same time leave in a fixed order. O(log candidates) per call.
class LruEviction : public EvictionPolicy {
 public:
  explicit LruEviction(int32_t num_blocks) : blocks_(num_blocks) {}

  void Use(BlockId block, uint64_t hash, int64_t now_us) override;
  void Offer(BlockId block) override;
  void Withdraw(BlockId block) override;
  void Forget(BlockId block) override;
  BlockId Next(int64_t now_us) const override;

 private:
  struct Block {
    uint64_t last_use = 0;  // 0: unknown
    bool offered = false;
  };

  std::vector<Block> blocks_;                                 // [num_blocks]
  absl::btree_set<std::pair<uint64_t, BlockId>> candidates_;  // by last use
  uint64_t num_uses_ = 0;
};

}  // namespace quire

#endif  // QUIRE_PAGED_KV_EVICTION_LRU_H_
