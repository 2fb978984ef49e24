#ifndef QUIRE_PAGED_KV_PREFIX_CACHE_H_
#define QUIRE_PAGED_KV_PREFIX_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

#include "paged_kv/block_pool.h"
#include "paged_kv/block_table.h"
#include "paged_kv/eviction_policy.h"

namespace quire {

// Names a node for as long as it lives; a ref to a node that is gone is recognised as such.
struct NodeRef {
  int32_t index = -1;  // -1: no node
  uint32_t generation = 0;
  bool is_none() const { return index < 0; }
  friend bool operator==(NodeRef, NodeRef) = default;
};

// What the cache has of a token sequence.
struct PrefixMatch {
  int32_t num_tokens = 0;      // whole blocks
  std::vector<NodeRef> nodes;  // [num_tokens / block_size]
  // [num_groups]: blocks with lower indices are out of the window and need not be held.
  std::vector<int32_t> first_block;
  NodeRef next_pending;  // the node after the match, where it is PENDING
  // A VALID node after the match whose first `partial_tokens` tokens agree, with a block in every
  // group: worth copying. No other such node agrees for longer.
  NodeRef partial;
  int32_t partial_tokens = 0;
};

struct PrefixCacheConfig {
  int32_t block_size = 0;
  std::vector<int32_t> group_windows;  // [num_groups]; 0: full attention
  int32_t hash_bits = 64;              // fewer make hashes collide: tests only
};

// PrefixCache says which blocks hold the KV of a token prefix, and gives up blocks that nobody
// holds when memory is needed. It does not say who waits for whom, nor when a step has committed:
// the scheduler does.
//
// A tree of nodes, one per full block of tokens. A node's identity is (parent, exact token ids);
// roots are salts. A hash finds a node, its token ids decide. A node is
//   VALID    its content is in one block per group; a window group's may be absent
//   PENDING  a promise of `owner`, a running sequence, to compute it; no memory
// Blocks of full-attention groups live and go together with their node, leaves first; a window
// group's block may go at any time. Whoever holds a node's block in a full group holds those of
// all its ancestors too, so a node that nobody holds has no descendant that somebody holds, and
// all IDLE blocks of the pool can be evicted.
//
// Owned by Scheduler, engine thread only. Keeping promises, publishing and giving up blocks do not
// allocate, but where a salt gets its root.
class PrefixCache : private BlockPool::IdleListener {
 public:
  // Becomes the pool's listener.
  PrefixCache(const PrefixCacheConfig& config, BlockPool* pool,
              std::unique_ptr<EvictionPolicy> policy);
  ~PrefixCache() override;
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Time for the eviction policy.
  void SetNow(int64_t now_us) { now_us_ = now_us; }

  // The longest prefix of at most `max_tokens` of `tokens` from which computing can go on: full
  // groups hold all of it, window groups what the next position sees. Changes nothing, holds
  // nothing. O(tokens). REQUIRES: tokens is not empty.
  PrefixMatch Match(const std::string& salt, absl::Span<const int32_t> tokens,
                    int32_t max_tokens) const;
  // Holds the match's blocks (not those of `partial`) and appends them to an empty table.
  // REQUIRES: nothing has changed since Match.
  void Hold(const PrefixMatch& match, BlockTable* table);
  // Computing can go on after these nodes, the first ones of a chain: window groups have what the
  // next position sees. O(blocks in the windows). REQUIRES: the nodes are VALID.
  bool CanGoOnAfter(absl::Span<const NodeRef> nodes) const;
  // Blocks of a node, to copy from. [num_groups]
  absl::Span<const BlockId> BlocksOf(NodeRef node) const;

  // The root of a salt; made where there is none. It lives as long as it has children.
  NodeRef Root(const std::string& salt);
  // Promises the child `tokens` of `parent`. REQUIRES: parent is alive and has no such child.
  NodeRef AddPending(NodeRef parent, absl::Span<const int32_t> tokens, uint64_t owner);
  // Keeps the promise: the node becomes VALID with these blocks.
  // REQUIRES: PENDING; the caller holds the blocks; kNoBlock in window groups only.
  void Fulfil(NodeRef pending, absl::Span<const BlockId> blocks);
  // Takes the promise back. REQUIRES: PENDING, without children.
  void ErasePending(NodeRef pending);
  // Makes the child `tokens` of `parent` VALID with these blocks and returns it. None: the parent
  // is gone, or the child is there already (VALID and usable, or promised by somebody): the
  // caller's blocks stay private. REQUIRES: as for Fulfil.
  NodeRef Publish(NodeRef parent, absl::Span<const int32_t> tokens,
                  absl::Span<const BlockId> blocks);
  // Erases a node that has neither blocks nor children, and ancestors that are left like it. A
  // sequence calls it for its last node when it goes.
  void Prune(NodeRef node);

  bool HasChild(NodeRef parent, absl::Span<const int32_t> tokens) const;
  bool IsPending(NodeRef node) const;
  uint64_t OwnerOf(NodeRef pending) const;  // REQUIRES: IsPending

  // Evicts IDLE blocks until the pool has `count` FREE ones; false when that cannot be had.
  [[nodiscard]] bool MakeFree(int32_t count);

  // CHECK-fails unless tree, indexes and pool agree. O(nodes + blocks). For tests.
  void CheckInvariants() const;

 private:
  enum class State : uint8_t { kUnused, kRoot, kPending, kValid };
  struct Node {
    State state = State::kUnused;
    bool offered = false;  // its full-group blocks are a candidate for eviction
    uint32_t generation = 0;
    int32_t parent = -1;
    int32_t num_children = 0;
    int32_t next_in_bucket = -1;
    uint64_t hash = 0;  // of the whole chain
    uint64_t owner = 0;
    absl::InlinedVector<BlockId, 2> blocks;  // [num_groups]
    std::string salt;                        // of a root
  };
  struct Key {
    int32_t parent = -1;
    absl::Span<const int32_t> tokens;
  };
  // A node among its siblings. The parent is repeated here because it mostly decides, and looking
  // it up in `nodes_` would cost a cache miss per comparison.
  struct Child {
    int32_t parent = -1;
    int32_t node = -1;
  };
  // Orders children by parent, then by tokens.
  struct ByTokens {
    using is_transparent = void;
    const PrefixCache* cache;
    absl::Span<const int32_t> TokensOf(const Child& child) const {
      return cache->TokensOf(child.node);
    }
    static absl::Span<const int32_t> TokensOf(const Key& key) { return key.tokens; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return a.parent != b.parent ? a.parent < b.parent : IsLess(TokensOf(a), TokensOf(b));
    }
    // The set's own assertions compare a child with itself, all the time.
    bool operator()(const Child& a, const Child& b) const {
      if (a.parent != b.parent) return a.parent < b.parent;
      return a.node != b.node && IsLess(TokensOf(a), TokensOf(b));
    }
    static bool IsLess(absl::Span<const int32_t> a, absl::Span<const int32_t> b);
  };

  void OnIdle(BlockId block) override;
  void OnHeldAgain(BlockId block) override;

  bool IsAlive(NodeRef ref) const;
  NodeRef RefTo(int32_t index) const { return {index, nodes_[index].generation}; }
  absl::Span<const int32_t> TokensOf(int32_t index) const;  // [block_size]; not of a root
  uint64_t HashOf(uint64_t parent_hash, absl::Span<const int32_t> tokens) const;
  size_t BucketOf(uint64_t hash) const { return hash & (first_in_bucket_.size() - 1); }
  int32_t FindChild(int32_t parent, absl::Span<const int32_t> tokens) const;  // -1: none
  int32_t AddNode(State state, int32_t parent, absl::Span<const int32_t> tokens);
  int32_t EraseNode(int32_t index);  // returns the parent
  void UnlinkHash(int32_t index);
  void PruneFrom(int32_t index);
  // Brings complete_by_tokens_ up to date.
  void SortComplete() const;
  void FindPartial(int32_t parent, absl::Span<const int32_t> tokens, PrefixMatch* match) const;

  void CheckNode(int32_t index) const;

  bool IsComplete(const Node& node) const;
  bool IsIdle(const Node& node) const;
  void SetBlocks(int32_t index, absl::Span<const BlockId> blocks);
  void ClearBlock(int32_t index, int32_t group);
  void ClearBlocks(int32_t index);
  // Offers or withdraws a node's full-group blocks, by what holds now.
  void UpdateOffer(int32_t index);
  [[nodiscard]] bool EvictOne();

  // Constant after construction.
  const int32_t block_size_;
  const std::vector<int32_t> windows_;  // [num_groups]
  const uint64_t hash_mask_;
  int32_t full_group_ = -1;  // one that stands for all full groups; -1: there is none
  BlockPool* const pool_;
  const std::unique_ptr<EvictionPolicy> policy_;

  int64_t now_us_ = 0;
  // For all blocks of the pool and some more, made at once; promises may exceed it.
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;  // [nodes, block_size]
  std::vector<int32_t> unused_nodes_;
  absl::flat_hash_map<std::string, int32_t> roots_;  // by salt
  // [a power of 2, at least their number]: nodes by hash, then along next_in_bucket; -1: none.
  std::vector<int32_t> first_in_bucket_;
  // VALID, no block absent. Only Match looks here: until it does, what has become complete waits in
  // `unsorted_`, together with what may be gone since.
  mutable absl::btree_set<Child, ByTokens> complete_by_tokens_;
  mutable std::vector<int32_t> unsorted_;  // within its first capacity
  std::vector<int32_t> node_of_block_;     // [num_blocks]; -1: not cached
  std::vector<int32_t> group_of_block_;    // [num_blocks]
};

}  // namespace quire

#endif  // QUIRE_PAGED_KV_PREFIX_CACHE_H_
