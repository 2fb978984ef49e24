#ifndef QUIRE_PAGED_KV_BLOCK_POOL_H_
#define QUIRE_PAGED_KV_BLOCK_POOL_H_

#include <cstdint>
#include <random>
#include <vector>

namespace quire {

using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;

// Steps are numbered from 1 in the order of their plans, and commit in that order.
using StepId = uint64_t;

// BlockPool says which KV blocks are free, which are held, and by how many sequences.
// It deals in ids only: bytes live in the backend, what a block's content means in PrefixCache.
//
// A block is in one of these states:
//   UNTOUCHED  its memory is not resident yet; never handed out
//   FREE       may be handed out
//   HELD       has holders
//   FENCED     has no holder, but an uncommitted step may still name it
//   IDLE       has no holder and no such step, and the prefix cache knows its content
// Take: FREE -> HELD. Drop of the last holder: -> FENCED, or at once to where the fence leads:
// IDLE when cached, else FREE. Hold: IDLE, FENCED and cached, or HELD -> HELD. Uncache: IDLE ->
// FREE.
//
// Owned by Scheduler, engine thread only. No allocation after construction but for the fence list,
// which grows to its high-water mark.
class BlockPool {
 public:
  // Hears when a cached block becomes IDLE, and when an IDLE block is held again.
  class IdleListener {
   public:
    virtual ~IdleListener() = default;
    virtual void OnIdle(BlockId block) = 0;
    virtual void OnHeldAgain(BlockId block) = 0;
  };

  // A seed other than 0 hands out free blocks in a random order instead of newest freed first.
  explicit BlockPool(int32_t num_blocks, uint64_t shuffle_seed = 0);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // The listener outlives the pool's use; without one no block may be marked cached.
  void SetListener(IdleListener* listener) { listener_ = listener; }
  // Blocks [0, n) may be handed out from now on; lower n has no effect. O(free), where n is new.
  void SetTouched(int32_t n);

  // Takes `count` FREE blocks, one holder each, and appends their ids to `*out`; or none at all
  // when fewer are free. O(count).
  [[nodiscard]] bool Take(int32_t count, std::vector<BlockId>* out);
  // One holder more. REQUIRES: the block is HELD, or it is cached.
  void Hold(BlockId block);
  // One holder less. `last_step` is the newest step that may name the block on this holder's
  // behalf; 0: none. REQUIRES: the block is HELD.
  void Drop(BlockId block, StepId last_step);
  // The prefix cache knows the block's content: without holders it will be IDLE, not FREE.
  // REQUIRES: the block is HELD and not cached.
  void MarkCached(BlockId block);
  // The prefix cache forgot the content. REQUIRES: the block is cached.
  void Uncache(BlockId block);
  // All steps up to `step` have committed: blocks that only they name leave the fence.
  void CommitStep(StepId step);

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t num_touched() const { return num_touched_; }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_held() const { return num_held_; }
  int32_t num_fenced() const { return num_fenced_; }
  int32_t num_idle() const { return num_idle_; }
  int32_t num_holders(BlockId block) const { return blocks_[block].num_holders; }
  bool is_cached(BlockId block) const { return blocks_[block].cached; }
  bool is_free(BlockId block) const { return blocks_[block].place == Place::kFree; }
  bool is_idle(BlockId block) const { return blocks_[block].place == Place::kIdle; }
  // Cached and held by nobody: IDLE, or FENCED on the way there.
  int32_t num_cached_unheld() const { return num_idle_ + num_fenced_cached_; }
  // How often the block has been handed out: content read under another number is not this one.
  uint32_t generation(BlockId block) const { return blocks_[block].generation; }

  // CHECK-fails unless states, lists and counts agree. O(num_blocks). For tests.
  void CheckInvariants() const;

 private:
  enum class Place : uint8_t { kUntouched, kFree, kHeld, kFenced, kIdle };
  struct Block {
    int32_t num_holders = 0;
    uint32_t generation = 0;
    StepId fence = 0;  // newest step that may name it
    Place place = Place::kUntouched;
    bool cached = false;
  };
  struct Fenced {
    BlockId block = kNoBlock;
    StepId step = 0;
  };

  // Where a block without holders goes once no step names it.
  void Settle(BlockId block);

  std::vector<Block> blocks_;
  std::vector<BlockId> free_;  // the back is handed out next
  // May hold entries of blocks that were held again since: they are skipped when they come up.
  std::vector<Fenced> fenced_;
  IdleListener* listener_ = nullptr;
  const bool shuffled_;
  std::mt19937_64 random_;
  StepId committed_ = 0;
  int32_t num_touched_ = 0;
  int32_t num_held_ = 0;
  int32_t num_fenced_ = 0;
  int32_t num_fenced_cached_ = 0;
  int32_t num_idle_ = 0;
};

}  // namespace quire

#endif  // QUIRE_PAGED_KV_BLOCK_POOL_H_
