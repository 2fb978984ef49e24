#ifndef QUIRE_PAGED_KV_EVICTION_POLICY_H_
#define QUIRE_PAGED_KV_EVICTION_POLICY_H_

#include <cstdint>

#include "paged_kv/block_pool.h"

namespace quire {

// EvictionPolicy answers which cached block is given up next. It does not know which blocks may be
// given up at all (leaves first, nobody holding them): PrefixCache offers and withdraws them.
//
// A block is known from its first Use to its Forget, and OFFERED or not meanwhile.
//
// Owned by PrefixCache, engine thread only. Every call costs O(log n) or less.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // The content of `block` was published, matched, or released by its last holder. `hash` is the
  // content's identity, the same when it comes back in another block; `now_us` never runs back.
  virtual void Use(BlockId block, uint64_t hash, int64_t now_us) = 0;
  // The block becomes, or is no longer, a candidate. REQUIRES: known, and not / indeed OFFERED.
  virtual void Offer(BlockId block) = 0;
  virtual void Withdraw(BlockId block) = 0;
  // The block lost its content. REQUIRES: known and not OFFERED.
  virtual void Forget(BlockId block) = 0;
  // The candidate to give up at `now_us`; kNoBlock when nothing is OFFERED.
  virtual BlockId Next(int64_t now_us) const = 0;
};

}  // namespace quire

#endif  // QUIRE_PAGED_KV_EVICTION_POLICY_H_
