#ifndef QUIRE_TESTS_SIM_NAIVE_PREFIX_CACHE_H_
#define QUIRE_TESTS_SIM_NAIVE_PREFIX_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paged_kv/prefix_cache.h"

namespace quire {

using Tokens = std::vector<int32_t>;

// A node by what it means: the salt, and all tokens from the first one to its last.
struct Prefix {
  std::string salt;
  Tokens tokens;
  auto operator<=>(const Prefix&) const = default;
};

// NaivePrefixCache says what a PrefixCache over a BlockPool must have, from definitions alone: a
// map of prefixes, counted holders, the time of each block's last use. It searches where the real
// one indexes, and knows no hash, no sibling order, no list of candidates.
//
// It is told what happened; what a caller may not ask it does not refuse.
class NaivePrefixCache {
 public:
  struct Node {
    bool is_pending = false;
    uint64_t owner = 0;
    std::vector<BlockId> blocks;  // [num_groups]; kNoBlock where absent
    NodeRef ref;                  // what the real one calls it
  };
  struct Block {
    int32_t num_holders = 0;
    StepId fence = 0;
    int64_t last_use = 0;  // larger is later; equal where one call used both
    int64_t num_uses = 0;
  };
  struct Match {
    int32_t num_tokens = 0;
    std::vector<int32_t> first_block;  // [num_groups]
    const Node* next_pending = nullptr;
    int32_t partial_tokens = 0;
    std::vector<const Node*> partials;  // all that have that many
  };
  // A node, or (group >= 0) only its block of a window group.
  struct Candidate {
    Prefix prefix;
    int32_t group = -1;
    int64_t last_use = 0;
  };

  NaivePrefixCache(int32_t block_size, std::vector<int32_t> windows, int32_t num_blocks)
      : block_size_(block_size), windows_(std::move(windows)), blocks_(num_blocks) {}

  const std::map<Prefix, Node>& nodes() const { return nodes_; }
  const Node* Find(const Prefix& prefix) const {
    const auto found = nodes_.find(prefix);
    return found == nodes_.end() ? nullptr : &found->second;
  }
  StepId committed() const { return committed_; }

  // ---- blocks ----

  const Block& block(BlockId id) const { return blocks_[id]; }
  bool IsCached(BlockId id) const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
      const std::vector<BlockId>& ids = entry.second.blocks;
      return std::find(ids.begin(), ids.end(), id) != ids.end();
    });
  }
  bool IsUnnamed(BlockId id) const {
    return blocks_[id].num_holders == 0 && blocks_[id].fence <= committed_;
  }
  bool IsIdle(BlockId id) const { return IsUnnamed(id) && IsCached(id); }
  int32_t NumFree() const {
    int32_t count = 0;
    for (BlockId id = 0; id < static_cast<BlockId>(blocks_.size()); ++id) {
      count += IsUnnamed(id) && !IsCached(id);
    }
    return count;
  }
  void Hold(BlockId id) { ++blocks_[id].num_holders; }
  void Use(BlockId id) { UseAt(id, ++clock_); }
  void Drop(BlockId id, StepId last_step) {
    blocks_[id].fence = std::max(blocks_[id].fence, last_step);
    --blocks_[id].num_holders;
    if (IsIdle(id)) Use(id);
  }
  void CommitStep() {
    ++committed_;
    ++clock_;
    for (BlockId id = 0; id < static_cast<BlockId>(blocks_.size()); ++id) {
      if (blocks_[id].fence == committed_ && IsIdle(id)) UseAt(id, clock_);
    }
  }

  // ---- the tree ----

  bool HasChildren(const Prefix& prefix) const {
    return std::any_of(nodes_.begin(), nodes_.end(),
                       [&](const auto& entry) { return ParentOf(entry.first) == prefix; });
  }
  Prefix ParentOf(const Prefix& prefix) const {
    if (prefix.tokens.empty()) return {prefix.salt, {-1}};  // of a root: no prefix at all
    Prefix parent = prefix;
    parent.tokens.resize(prefix.tokens.size() - block_size_);
    return parent;
  }
  void AddPending(const Prefix& prefix, uint64_t owner, NodeRef ref) {
    nodes_[prefix] = {true, owner, std::vector<BlockId>(windows_.size(), kNoBlock), ref};
  }
  // The node is VALID with these blocks from now on.
  void SetBlocks(const Prefix& prefix, const std::vector<BlockId>& blocks) {
    nodes_[prefix].is_pending = false;
    nodes_[prefix].blocks = blocks;
    for (const BlockId block : blocks) {
      if (block != kNoBlock) Use(block);
    }
  }
  void SetRef(const Prefix& prefix, NodeRef ref) { nodes_[prefix].ref = ref; }
  // Whether publishing these tokens makes or mends a node, given that its parent is there.
  bool MayPublish(const Prefix& prefix) const {
    const Node* const node = Find(prefix);
    if (node == nullptr) return true;
    if (node->is_pending || IsComplete(*node)) return false;
    return std::all_of(node->blocks.begin(), node->blocks.end(),
                       [&](BlockId id) { return id == kNoBlock || IsIdle(id); });
  }
  void ErasePending(const Prefix& prefix) {
    nodes_.erase(prefix);
    Prune(ParentOf(prefix));
  }
  // Erases the prefix, and then those above it, where nothing is left: no block, no child.
  void Prune(Prefix prefix) {
    for (const Node* node; (node = Find(prefix)) != nullptr; prefix = ParentOf(prefix)) {
      const bool is_empty = std::all_of(node->blocks.begin(), node->blocks.end(),
                                        [](BlockId id) { return id == kNoBlock; });
      if (node->is_pending || !is_empty || HasChildren(prefix)) return;
      nodes_.erase(prefix);
    }
  }

  // ---- looking up ----

  // From which block on the position `query` sees the group.
  int32_t FirstSeen(int32_t group, int32_t query) const {
    const int32_t window = windows_[group];
    return window == 0 ? 0 : std::max(0, query - window + 1) / block_size_;
  }
  // Computing can go on after the first `length` of the tokens.
  bool IsUsable(const std::string& salt, const Tokens& tokens, int32_t length) const {
    const int32_t query = std::min(length, static_cast<int32_t>(tokens.size()) - 1);
    for (int32_t i = 0; i < length / block_size_; ++i) {
      const Node* const node = Find(Head(salt, tokens, (i + 1) * block_size_));
      if (node == nullptr || node->is_pending) return false;
      for (int32_t group = 0; group < num_groups(); ++group) {
        if (i >= FirstSeen(group, query) && node->blocks[group] == kNoBlock) return false;
      }
    }
    return true;
  }
  Match MatchOf(const std::string& salt, const Tokens& tokens, int32_t max_tokens) const {
    const auto num_tokens = static_cast<int32_t>(tokens.size());
    Match match;
    for (int32_t n = 0; n <= max_tokens; n += block_size_) {
      if (IsUsable(salt, tokens, n)) match.num_tokens = n;
    }
    const int32_t n = match.num_tokens;
    for (int32_t group = 0; group < num_groups(); ++group) {
      match.first_block.push_back(n == 0 ? 0 : FirstSeen(group, std::min(n, num_tokens - 1)));
    }
    if (n + block_size_ <= max_tokens) {
      const Node* const next = Find(Head(salt, tokens, n + block_size_));
      if (next != nullptr && next->is_pending) match.next_pending = next;
    }
    // At least the last token is computed.
    const int32_t end = std::min({n + block_size_, max_tokens, num_tokens - 1});
    const Prefix parent = Head(salt, tokens, n);
    for (const auto& [prefix, node] : nodes_) {
      if (ParentOf(prefix) != parent || node.is_pending || !IsComplete(node)) continue;
      int32_t common = 0;
      while (n + common < end && prefix.tokens[n + common] == tokens[n + common]) ++common;
      if (common > match.partial_tokens) match.partials.clear();
      match.partial_tokens = std::max(match.partial_tokens, common);
      if (common > 0 && common == match.partial_tokens) match.partials.push_back(&node);
    }
    return match;
  }
  static Prefix Head(const std::string& salt, const Tokens& tokens, int32_t length) {
    return {salt, Tokens(tokens.begin(), tokens.begin() + length)};
  }

  // ---- eviction ----

  // All that may be given up now: nodes without children whose blocks nobody needs, and blocks of
  // window groups.
  std::vector<Candidate> Candidates() const {
    std::vector<Candidate> candidates;
    const auto full = std::find(windows_.begin(), windows_.end(), 0) - windows_.begin();
    for (const auto& [prefix, node] : nodes_) {
      bool is_unneeded = full < num_groups() && !node.is_pending && !HasChildren(prefix);
      for (int32_t group = 0; group < num_groups(); ++group) {
        const BlockId id = node.blocks[group];
        if (windows_[group] == 0) {
          is_unneeded = is_unneeded && IsIdle(id);
        } else if (id != kNoBlock && IsIdle(id)) {
          candidates.push_back({prefix, group, blocks_[id].last_use});
        }
      }
      if (is_unneeded) candidates.push_back({prefix, -1, blocks_[node.blocks[full]].last_use});
    }
    return candidates;
  }
  void Evict(const Candidate& candidate) {
    Node& node = nodes_[candidate.prefix];
    if (candidate.group >= 0) {
      node.blocks[candidate.group] = kNoBlock;
      Prune(candidate.prefix);
    } else {
      nodes_.erase(candidate.prefix);
      Prune(ParentOf(candidate.prefix));
    }
  }

  int32_t num_groups() const { return static_cast<int32_t>(windows_.size()); }
  static bool IsComplete(const Node& node) {
    return std::find(node.blocks.begin(), node.blocks.end(), kNoBlock) == node.blocks.end();
  }

 private:
  void UseAt(BlockId id, int64_t time) {
    blocks_[id].last_use = time;
    ++blocks_[id].num_uses;
  }

  const int32_t block_size_;
  const std::vector<int32_t> windows_;  // [num_groups]
  std::map<Prefix, Node> nodes_;
  std::vector<Block> blocks_;  // [num_blocks]
  StepId committed_ = 0;
  int64_t clock_ = 0;
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_NAIVE_PREFIX_CACHE_H_
