#include "paged_kv/block_pool.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"
#include "paged_kv/reserve_touched.h"

namespace quire {

BlockPool::BlockPool(int32_t num_blocks, uint64_t shuffle_seed)
    : blocks_(num_blocks), shuffled_(shuffle_seed != 0), random_(shuffle_seed) {
  QUIRE_CHECK(num_blocks > 0, "a pool has blocks");
  ReserveTouched(num_blocks, &free_);
}

void BlockPool::SetTouched(int32_t n) {
  QUIRE_CHECK(n <= num_blocks(), "touched blocks are blocks of the pool");
  if (n <= num_touched_) return;
  // Below everything freed since, so that memory in use stays dense and warm.
  free_.insert(free_.begin(), n - num_touched_, kNoBlock);
  for (; num_touched_ < n; ++num_touched_) {
    blocks_[num_touched_].place = Place::kFree;
    free_[n - 1 - num_touched_] = num_touched_;
  }
}

bool BlockPool::Take(int32_t count, std::vector<BlockId>* out) {
  if (count > num_free()) return false;
  for (int32_t i = 0; i < count; ++i) {
    if (shuffled_) std::swap(free_[random_() % free_.size()], free_.back());
    const BlockId id = free_.back();
    free_.pop_back();
    Block& block = blocks_[id];
    QUIRE_CHECK(block.num_holders == 0 && !block.cached && block.fence <= committed_,
                "invariant 2");
    block.num_holders = 1;
    block.place = Place::kHeld;
    ++block.generation;
    ++num_held_;
    out->push_back(id);
  }
  return true;
}

void BlockPool::Hold(BlockId id) {
  Block& block = blocks_[id];
  ++block.num_holders;
  if (block.place == Place::kHeld) return;
  QUIRE_CHECK(block.cached, "only a cached block survives without holders");
  const bool was_idle = block.place == Place::kIdle;
  if (was_idle) {
    --num_idle_;
  } else {
    --num_fenced_;
    --num_fenced_cached_;
  }
  block.place = Place::kHeld;
  ++num_held_;
  if (was_idle) listener_->OnHeldAgain(id);
}

void BlockPool::Drop(BlockId id, StepId last_step) {
  Block& block = blocks_[id];
  QUIRE_CHECK(block.place == Place::kHeld && block.num_holders > 0, "dropped by a holder");
  block.fence = std::max(block.fence, last_step);
  if (--block.num_holders > 0) return;
  --num_held_;
  if (block.fence > committed_) {
    block.place = Place::kFenced;
    ++num_fenced_;
    num_fenced_cached_ += block.cached;
    fenced_.push_back({id, block.fence});
  } else {
    Settle(id);
  }
}

void BlockPool::Settle(BlockId id) {
  Block& block = blocks_[id];
  if (block.cached) {
    block.place = Place::kIdle;
    ++num_idle_;
    listener_->OnIdle(id);
  } else {
    block.place = Place::kFree;
    free_.push_back(id);
  }
}

void BlockPool::MarkCached(BlockId id) {
  Block& block = blocks_[id];
  QUIRE_CHECK(listener_ != nullptr && block.place == Place::kHeld && !block.cached,
              "cached once, by a holder");
  block.cached = true;
}

void BlockPool::Uncache(BlockId id) {
  Block& block = blocks_[id];
  QUIRE_CHECK(block.cached, "only a cached block survives without holders");
  block.cached = false;
  if (block.place == Place::kFenced) --num_fenced_cached_;
  if (block.place == Place::kIdle) {
    --num_idle_;
    Settle(id);
  }
}

void BlockPool::CommitStep(StepId step) {
  QUIRE_CHECK(step > committed_, "steps commit in order");
  committed_ = step;
  size_t kept = 0;
  for (const Fenced entry : fenced_) {
    const Block& block = blocks_[entry.block];
    if (entry.step > step) {
      fenced_[kept++] = entry;
    } else if (block.place == Place::kFenced && block.fence == entry.step) {
      --num_fenced_;
      num_fenced_cached_ -= block.cached;
      Settle(entry.block);
    }
  }
  fenced_.resize(kept);
}

void BlockPool::CheckInvariants() const {
  int32_t counts[5] = {};
  int32_t num_cached_unheld_found = 0;
  for (BlockId id = 0; id < num_blocks(); ++id) {
    const Block& block = blocks_[id];
    ++counts[static_cast<int>(block.place)];
    num_cached_unheld_found += block.cached && block.num_holders == 0;
    QUIRE_CHECK((block.num_holders > 0) == (block.place == Place::kHeld), "invariant 1");
    QUIRE_CHECK((id >= num_touched_) == (block.place == Place::kUntouched), "invariant 1");
    QUIRE_CHECK(block.place != Place::kFenced || block.fence > committed_, "invariant 2");
    QUIRE_CHECK(block.place != Place::kFree || block.fence <= committed_, "invariant 2");
    QUIRE_CHECK(block.place != Place::kIdle || block.fence <= committed_, "invariant 2");
    QUIRE_CHECK(block.place != Place::kFree || !block.cached, "invariant 3");
    QUIRE_CHECK(block.place != Place::kIdle || block.cached, "invariant 3");
  }
  QUIRE_CHECK(counts[static_cast<int>(Place::kFree)] == num_free(), "invariant 1");
  QUIRE_CHECK(counts[static_cast<int>(Place::kHeld)] == num_held_, "invariant 1");
  QUIRE_CHECK(counts[static_cast<int>(Place::kFenced)] == num_fenced_, "invariant 1");
  QUIRE_CHECK(counts[static_cast<int>(Place::kIdle)] == num_idle_, "invariant 1");
  QUIRE_CHECK(num_cached_unheld_found == num_cached_unheld(), "invariant 1");
  std::vector<bool> listed(blocks_.size());
  for (const BlockId id : free_) {
    QUIRE_CHECK(blocks_[id].place == Place::kFree && !listed[id], "invariant 1");
    listed[id] = true;
  }
}

}  // namespace quire
