#include "paged_kv/eviction_lru.h"

#include "kernels/check.h"

namespace quire {

void LruEviction::Use(BlockId id, uint64_t /*hash*/, int64_t /*now_us*/) {
  Block& block = blocks_[id];
  if (block.offered) candidates_.erase({block.last_use, id});
  block.last_use = ++num_uses_;
  if (block.offered) candidates_.insert({block.last_use, id});
}

void LruEviction::Offer(BlockId id) {
  Block& block = blocks_[id];
  QUIRE_CHECK(block.last_use != 0 && !block.offered, "offered once, and known");
  block.offered = true;
  candidates_.insert({block.last_use, id});
}

void LruEviction::Withdraw(BlockId id) {
  Block& block = blocks_[id];
  QUIRE_CHECK(block.offered, "withdrawn once");
  block.offered = false;
  candidates_.erase({block.last_use, id});
}

void LruEviction::Forget(BlockId id) {
  QUIRE_CHECK(blocks_[id].last_use != 0 && !blocks_[id].offered, "known and not offered");
  blocks_[id].last_use = 0;
}

BlockId LruEviction::Next(int64_t /*now_us*/) const {
  return candidates_.empty() ? kNoBlock : candidates_.begin()->second;
}

}  // namespace quire
