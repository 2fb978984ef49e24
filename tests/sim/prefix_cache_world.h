#ifndef QUIRE_TESTS_SIM_PREFIX_CACHE_WORLD_H_
#define QUIRE_TESTS_SIM_PREFIX_CACHE_WORLD_H_

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"

#include "paged_kv/eviction_lru.h"
#include "paged_kv/prefix_cache.h"
#include "tests/sim/acts.h"
#include "tests/sim/naive_prefix_cache.h"

namespace quire {

// What an eviction policy was asked, and said.
struct EvictionNotes {
  std::vector<BlockId> given_up;
  std::map<BlockId, uint64_t> hashes;   // of the block's last use
  std::map<BlockId, int64_t> num_uses;  // of all times
};

class NotedLru : public LruEviction {
 public:
  NotedLru(int32_t num_blocks, EvictionNotes* notes) : LruEviction(num_blocks), notes_(notes) {}
  void Use(BlockId block, uint64_t hash, int64_t now_us) override {
    LruEviction::Use(block, hash, now_us);
    notes_->hashes[block] = hash;
    ++notes_->num_uses[block];
  }
  BlockId Next(int64_t now_us) const override {
    const BlockId block = LruEviction::Next(now_us);
    if (block != kNoBlock) notes_->given_up.push_back(block);
    return block;
  }

 private:
  EvictionNotes* const notes_;
};

// One that computes tokens as sequences of the scheduler do: what it holds and what it promised.
struct Computing {
  Computing(std::string its_salt, Tokens its_tokens, int32_t num_groups)
      : salt(std::move(its_salt)), tokens(std::move(its_tokens)), table(num_groups) {}
  std::string salt;
  Tokens tokens;
  BlockTable table;
  std::vector<NodeRef> nodes;  // [0, num_published) VALID, then its promises
  int32_t num_published = 0;
  bool publishes = true;
  StepId last_step = 0;
  uint64_t id = 0;
};

struct CacheVariant {
  int32_t block_size;
  std::vector<int32_t> windows;
  int32_t hash_bits;
};
inline CacheVariant VariantOf(int32_t number) {
  static const std::vector<std::vector<int32_t>> windows = {{0}, {0, 5}, {5}, {0, 0, 3}, {4, 7}};
  constexpr int32_t kHashBits[] = {64, 0, 1, 2, 3};
  const auto num_windows = static_cast<int32_t>(windows.size());
  return {number / num_windows / 5 == 0 ? 2 : 3, windows[number % num_windows],
          kHashBits[number / num_windows % 5]};
}

// The world (acts.h) of PrefixCache over a real BlockPool and LruEviction, beside NaivePrefixCache.
// Variants: block sizes, groups, and hashes of few bits.
class CacheWorld {
 public:
  static constexpr int32_t kNumVariants = 50;
  static const std::vector<ActKind<CacheWorld>>& Kinds();

  explicit CacheWorld(int32_t variant)
      : variant_(VariantOf(variant)),
        pool_(NumBlocks()),
        cache_({.block_size = variant_.block_size,
                .group_windows = variant_.windows,
                .hash_bits = variant_.hash_bits},
               &pool_, std::make_unique<NotedLru>(NumBlocks(), &notes_)),
        model_(variant_.block_size, variant_.windows, NumBlocks()) {
    pool_.SetTouched(NumBlocks());
  }

  // Matches, holds, and mostly promises the rest of its full blocks, unless one is promised.
  void Start(const Act& act) {
    Computing one(SaltOf(act.b), TokensOf(act), Groups());
    if (computing_.size() == 4) return;
    const PrefixMatch match = Match(one.salt, one.tokens, MaxTokensOf(act, one.tokens));
    const bool promises = act.c % 4 != 3;
    if (promises && !match.next_pending.is_none()) return;  // it would wait
    int32_t num_unheld = 0;
    for (const BlockId id : BlocksHeldBy(match)) num_unheld += model_.block(id).num_holders == 0;
    const int32_t num_held_before = pool_.num_held();
    cache_.Hold(match, &one.table);
    SIM_REQUIRE_EQ(pool_.num_held() - num_held_before, num_unheld);
    for (const BlockId id : BlocksHeldBy(match)) {
      model_.Hold(id);
      model_.Use(id);
    }
    one.nodes = match.nodes;
    one.num_published = static_cast<int32_t>(match.nodes.size());
    one.id = ++num_started_;
    SIM_REQUIRE_EQ(one.table.num_blocks(), one.num_published);
    if (match.partial_tokens > 0 && act.c % 8 >= 4) CopyFrom(match.partial, &one);
    if (promises) Promise(&one);
    computing_.push_back(std::move(one));
  }

  // Takes a block per group for its next tokens, if that can be had.
  void Compute(const Act& act) {
    Computing* const one = Pick(act.a);
    if (one == nullptr || one->table.num_blocks() >= kMaxBlocks || !MakeFree(Groups())) return;
    std::vector<BlockId> blocks;
    SIM_REQUIRE(pool_.Take(Groups(), &blocks), "what MakeFree made");
    for (const BlockId block : blocks) model_.Hold(block);
    one->table.Append(blocks);
    one->last_step = std::max(one->last_step, model_.committed() + act.b % 3);
    while (static_cast<int32_t>(one->tokens.size()) < ComputedBy(*one)) {
      one->tokens.push_back(act.c % 2);
    }
  }

  void Publish(const Act& act) {
    Computing* const one = Pick(act.a);
    const int32_t i = one == nullptr ? 0 : one->num_published;
    if (one == nullptr || !one->publishes || i >= one->table.num_blocks()) return;
    std::vector<BlockId> blocks(Groups());
    for (int32_t group = 0; group < Groups(); ++group) blocks[group] = one->table.at(group, i);
    const Prefix prefix = PrefixOf(*one, i + 1);
    if (i < static_cast<int32_t>(one->nodes.size())) {
      cache_.Fulfil(one->nodes[i], blocks);
      model_.SetBlocks(prefix, blocks);
      ++one->num_published;
      return;
    }
    const NodeRef parent = i == 0 ? cache_.Root(one->salt) : one->nodes.back();
    const bool has_parent = i == 0 || IsThere(PrefixOf(*one, i), parent);
    const bool may_publish = has_parent && model_.MayPublish(prefix);
    const NodeRef node = cache_.Publish(
        parent, absl::MakeConstSpan(prefix.tokens).last(variant_.block_size), blocks);
    SIM_REQUIRE_EQ(!node.is_none(), may_publish);
    one->publishes = may_publish;
    if (!may_publish) return;
    AddRef(prefix, node);
    model_.SetBlocks(prefix, blocks);
    model_.SetRef(prefix, node);
    one->nodes.push_back(node);
    ++one->num_published;
  }

  // Gives back the blocks that its next token does not see.
  void SlideWindows(const Act& act) {
    Computing* const one = Pick(act.a);
    if (one == nullptr) return;
    for (int32_t group = 0; group < Groups(); ++group) {
      const int32_t first = model_.FirstSeen(group, ComputedBy(*one));
      for (int32_t i = one->table.first_held(group); i < std::min(first, one->table.num_blocks());
           ++i) {
        model_.Drop(one->table.at(group, i), one->last_step);
      }
      one->table.DropBefore(group, first, one->last_step, &pool_);
    }
  }

  // Takes back its promises, and goes on alone.
  void ErasePromises(const Act& act) {
    if (Computing* const one = Pick(act.a)) EraseThosePromisedBy(one);
  }

  void End(const Act& act) {
    Computing* const one = Pick(act.a);
    if (one == nullptr) return;
    EraseThosePromisedBy(one);
    if (!one->nodes.empty()) {
      const Prefix last = PrefixOf(*one, one->num_published);
      const bool is_there = IsThere(last, one->nodes.back());
      cache_.Prune(one->nodes.back());
      if (is_there) model_.Prune(last);
    }
    for (int32_t i = one->table.num_blocks() - 1; i >= 0; --i) {
      for (int32_t group = 0; group < Groups(); ++group) {
        const BlockId block = one->table.at(group, i);
        if (block != kNoBlock) model_.Drop(block, one->last_step);
      }
    }
    one->table.DropAll(one->last_step, &pool_);
    computing_.remove_if([&](const Computing& other) { return &other == one; });
  }

  void CommitStep(const Act& /*act*/) {
    model_.CommitStep();
    pool_.CommitStep(model_.committed());
  }

  void MakeFree(const Act& act) { (void)MakeFree(act.a % (NumBlocks() + 2)); }

  void Probe(const Act& act) {
    const Tokens tokens = TokensOf(act);
    Match(SaltOf(act.b), tokens, MaxTokensOf(act, tokens));
  }

  void Check();
  void Finish();

 private:
  static constexpr int32_t kMaxBlocks = 6;

  static std::string SaltOf(int32_t b) { return b % 4 == 3 ? "other" : ""; }
  // Two tokens only, so that much is shared; half of the time a node that there is, and more.
  Tokens TokensOf(const Act& act) const {
    Tokens tokens;
    int32_t num_more = 1 + act.b / 4 % (4 * variant_.block_size + 2);
    if (act.b % 2 == 1 && !model_.nodes().empty()) {
      const auto num_nodes = static_cast<int32_t>(model_.nodes().size());
      tokens = std::next(model_.nodes().begin(), act.a / 16 % num_nodes)->first.tokens;
      num_more = act.b / 4 % (variant_.block_size + 2);
    }
    for (int32_t i = 0; i < num_more; ++i) tokens.push_back(act.a >> (i % 16) & 1);
    return tokens;
  }
  static int32_t MaxTokensOf(const Act& act, const Tokens& tokens) {
    const auto all = static_cast<int32_t>(tokens.size());
    return act.c / 8 % 4 == 3 ? act.c / 32 % (all + 1) : all;
  }
  int32_t Groups() const { return static_cast<int32_t>(variant_.windows.size()); }
  int32_t NumBlocks() const { return 7 * Groups(); }
  int32_t ComputedBy(const Computing& one) const {
    return one.table.num_blocks() * variant_.block_size;
  }
  Prefix PrefixOf(const Computing& one, int32_t num_blocks) const {
    return NaivePrefixCache::Head(one.salt, one.tokens, num_blocks * variant_.block_size);
  }
  Computing* Pick(int32_t a) {
    if (computing_.empty()) return nullptr;
    return &*std::next(computing_.begin(), a % static_cast<int32_t>(computing_.size()));
  }
  // The model has the node, and it is still that one.
  bool IsThere(const Prefix& prefix, NodeRef ref) const {
    const NaivePrefixCache::Node* const node = model_.Find(prefix);
    return node != nullptr && node->ref == ref;
  }
  // No two nodes ever have the same ref, but for one that is mended.
  void AddRef(const Prefix& prefix, NodeRef ref) {
    const auto [it, is_new] = refs_.insert({{ref.index, ref.generation}, prefix});
    SIM_REQUIRE(is_new || (it->second == prefix && IsThere(prefix, ref)), "a ref of two nodes");
  }

  PrefixMatch Match(const std::string& salt, const Tokens& tokens, int32_t max_tokens);
  std::vector<BlockId> BlocksHeldBy(const PrefixMatch& match) const;
  void CopyFrom(NodeRef source, Computing* one);
  void Promise(Computing* one);
  void EraseThosePromisedBy(Computing* one);
  bool MakeFree(int32_t count);
  void CheckHashes();

  const CacheVariant variant_;
  EvictionNotes notes_;
  BlockPool pool_;
  PrefixCache cache_;
  NaivePrefixCache model_;
  std::list<Computing> computing_;
  uint64_t num_started_ = 0;
  std::map<std::pair<int32_t, uint32_t>, Prefix> refs_;  // all that there ever were
  std::map<Prefix, uint64_t> identities_;                // for the eviction policy
  std::map<uint64_t, Prefix> prefix_of_identity_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_PREFIX_CACHE_WORLD_H_
