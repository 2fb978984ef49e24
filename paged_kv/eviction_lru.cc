#include "paged_kv/eviction_lru.h"

#include <utility>

#include "kernels/check.h"
#include "paged_kv/reserve_touched.h"

namespace quire {

LruEviction::LruEviction(int32_t num_blocks) : blocks_(num_blocks) {
  ReserveTouched(num_blocks, &candidates_);
}

void LruEviction::Use(BlockId id, uint64_t /*hash*/, int64_t /*now_us*/) {
  blocks_[id].last_use = ++num_uses_;
  if (blocks_[id].heap_idx >= 0) Restore(blocks_[id].heap_idx);
}

void LruEviction::Offer(BlockId id) {
  QUIRE_CHECK(blocks_[id].last_use != 0 && blocks_[id].heap_idx < 0, "offered once, and known");
  candidates_.push_back(id);
  Restore(static_cast<int32_t>(candidates_.size()) - 1);
}

void LruEviction::Withdraw(BlockId id) {
  const int32_t heap_idx = std::exchange(blocks_[id].heap_idx, -1);
  QUIRE_CHECK(heap_idx >= 0, "withdrawn once");
  const BlockId last = candidates_.back();
  candidates_.pop_back();
  if (last == id) return;
  candidates_[heap_idx] = last;
  Restore(heap_idx);
}

void LruEviction::Forget(BlockId id) {
  QUIRE_CHECK(blocks_[id].last_use != 0 && blocks_[id].heap_idx < 0, "known and not offered");
  blocks_[id].last_use = 0;
}

BlockId LruEviction::Next(int64_t /*now_us*/) const {
  return candidates_.empty() ? kNoBlock : candidates_.front();
}

void LruEviction::Place(int32_t heap_idx, BlockId id) {
  candidates_[heap_idx] = id;
  blocks_[id].heap_idx = heap_idx;
}

void LruEviction::Restore(int32_t heap_idx) {
  const BlockId id = candidates_[heap_idx];
  int32_t i = heap_idx;
  for (; i > 0 && IsOlder(id, candidates_[(i - 1) / 2]); i = (i - 1) / 2) {
    Place(i, candidates_[(i - 1) / 2]);
  }
  const auto end = static_cast<int32_t>(candidates_.size());
  for (int32_t child = 2 * i + 1; child < end; child = 2 * i + 1) {
    if (child + 1 < end && IsOlder(candidates_[child + 1], candidates_[child])) ++child;
    if (!IsOlder(candidates_[child], id)) break;
    Place(i, candidates_[child]);
    i = child;
  }
  Place(i, id);
}

}  // namespace quire
