#include "tests/sim/prefix_cache_world.h"

namespace quire {

const std::vector<ActKind<CacheWorld>>& CacheWorld::Kinds() {
  static const std::vector<ActKind<CacheWorld>> kinds = {
      {"Start", 6, &CacheWorld::Start},
      {"Compute", 10, &CacheWorld::Compute},
      {"Publish", 10, &CacheWorld::Publish},
      {"SlideWindows", 4, &CacheWorld::SlideWindows},
      {"ErasePromises", 1, &CacheWorld::ErasePromises},
      {"End", 5, &CacheWorld::End},
      {"CommitStep", 4, &CacheWorld::CommitStep},
      {"MakeFree", 2, &CacheWorld::MakeFree},
      {"Probe", 4, &CacheWorld::Probe},
  };
  return kinds;
}

PrefixMatch CacheWorld::Match(const std::string& salt, const Tokens& tokens, int32_t max_tokens) {
  PrefixMatch found = cache_.Match(salt, tokens, max_tokens);
  const NaivePrefixCache::Match expected = model_.MatchOf(salt, tokens, max_tokens);
  const std::string of = absl::StrCat("of ", absl::StrJoin(tokens, ""), " up to ", max_tokens);
  SIM_REQUIRE_EQ(found.num_tokens, expected.num_tokens, of);
  SIM_REQUIRE_EQ(absl::StrJoin(found.first_block, ","), absl::StrJoin(expected.first_block, ","));
  SIM_REQUIRE_EQ(static_cast<int32_t>(found.nodes.size()), found.num_tokens / variant_.block_size);
  for (size_t i = 0; i < found.nodes.size(); ++i) {
    const auto length = static_cast<int32_t>(i + 1) * variant_.block_size;
    SIM_REQUIRE(IsThere(NaivePrefixCache::Head(salt, tokens, length), found.nodes[i]), of);
  }
  SIM_REQUIRE_EQ(found.next_pending.is_none(), expected.next_pending == nullptr, of);
  if (expected.next_pending != nullptr) {
    SIM_REQUIRE(found.next_pending == expected.next_pending->ref, of);
  }
  SIM_REQUIRE_EQ(found.partial_tokens, expected.partial_tokens, of);
  SIM_REQUIRE_EQ(found.partial.is_none(), expected.partial_tokens == 0, of);
  SIM_REQUIRE(found.partial.is_none() ||
                  std::any_of(expected.partials.begin(), expected.partials.end(),
                              [&](const auto* node) { return node->ref == found.partial; }),
              of);
  return found;
}

std::vector<BlockId> CacheWorld::BlocksHeldBy(const PrefixMatch& match) const {
  std::vector<BlockId> blocks;
  for (size_t i = 0; i < match.nodes.size(); ++i) {
    const NodeRef ref = match.nodes[i];
    const NaivePrefixCache::Node* const node = model_.Find(refs_.at({ref.index, ref.generation}));
    for (int32_t group = 0; group < Groups(); ++group) {
      if (static_cast<int32_t>(i) >= match.first_block[group]) {
        blocks.push_back(node->blocks[group]);
      }
    }
  }
  return blocks;
}

// Holds the source while a step copies from it. That it becomes IDLE again counts as a use.
void CacheWorld::CopyFrom(NodeRef source, Computing* one) {
  one->last_step = model_.committed() + 1;
  const absl::Span<const BlockId> span = cache_.BlocksOf(source);
  const std::vector<BlockId> blocks(span.begin(), span.end());
  for (const BlockId block : blocks) {
    pool_.Hold(block);
    model_.Hold(block);
  }
  for (const BlockId block : blocks) {
    pool_.Drop(block, one->last_step);
    model_.Drop(block, one->last_step);
  }
}

void CacheWorld::Promise(Computing* one) {
  const auto num_full = static_cast<int32_t>(one->tokens.size()) / variant_.block_size;
  for (auto i = static_cast<int32_t>(one->nodes.size()); i < num_full; ++i) {
    const Prefix prefix = PrefixOf(*one, i + 1);
    const NodeRef parent = i == 0 ? cache_.Root(one->salt) : one->nodes.back();
    const auto tokens = absl::MakeConstSpan(prefix.tokens).last(variant_.block_size);
    const bool has_child = model_.Find(prefix) != nullptr;
    SIM_REQUIRE_EQ(cache_.HasChild(parent, tokens), has_child);
    if (has_child) return;
    const NodeRef node = cache_.AddPending(parent, tokens, one->id);
    AddRef(prefix, node);
    model_.AddPending(prefix, one->id, node);
    one->nodes.push_back(node);
  }
}

void CacheWorld::EraseThosePromisedBy(Computing* one) {
  while (static_cast<int32_t>(one->nodes.size()) > one->num_published) {
    cache_.ErasePending(one->nodes.back());
    model_.ErasePending(PrefixOf(*one, static_cast<int32_t>(one->nodes.size())));
    one->nodes.pop_back();
  }
}

// Each time the least recently used of all that may go, and no more than it takes.
bool CacheWorld::MakeFree(int32_t count) {
  notes_.given_up.clear();
  const bool is_made = cache_.MakeFree(count);
  for (const BlockId block : notes_.given_up) {
    SIM_REQUIRE(model_.NumFree() < count, "block ", block, " was given up for nothing");
    const std::vector<NaivePrefixCache::Candidate> all = model_.Candidates();
    const auto chosen = std::find_if(all.begin(), all.end(), [&](const auto& candidate) {
      const NaivePrefixCache::Node& node = *model_.Find(candidate.prefix);
      if (candidate.group >= 0) return node.blocks[candidate.group] == block;
      const auto& ids = node.blocks;
      const auto in = std::find(ids.begin(), ids.end(), block);
      return in != ids.end() && variant_.windows[in - ids.begin()] == 0;
    });
    SIM_REQUIRE(chosen != all.end(), "block ", block, " is no candidate");
    for (const auto& other : all) {
      SIM_REQUIRE(chosen->last_use <= other.last_use, "block ", block, " is not the oldest");
    }
    model_.Evict(*chosen);
  }
  SIM_REQUIRE_EQ(is_made, model_.NumFree() >= count);
  SIM_REQUIRE(is_made || model_.Candidates().empty(), "there was more to give up");
  return is_made;
}

// The eviction policy knows what comes back by a hash: of the same prefix always the same, and of
// another one another, unless it was made to collide.
void CacheWorld::CheckHashes() {
  for (const auto& [prefix, node] : model_.nodes()) {
    for (const BlockId block : node.blocks) {
      if (block == kNoBlock) continue;
      const uint64_t hash = notes_.hashes.at(block);
      const auto [it, is_new] = identities_.insert({prefix, hash});
      SIM_REQUIRE(is_new || it->second == hash, "block ", block, " has another identity");
      if (variant_.hash_bits < 64) continue;
      const Prefix& owner = prefix_of_identity_.insert({hash, prefix}).first->second;
      SIM_REQUIRE(owner == prefix, "block ", block, " has the identity of others");
    }
  }
}

void CacheWorld::Check() {
  pool_.CheckInvariants();
  cache_.CheckInvariants();
  SIM_REQUIRE_EQ(pool_.num_free(), model_.NumFree());
  for (BlockId block = 0; block < NumBlocks(); ++block) {
    SIM_REQUIRE_EQ(pool_.num_holders(block), model_.block(block).num_holders, "block ", block);
    SIM_REQUIRE_EQ(pool_.is_cached(block), model_.IsCached(block), "block ", block);
    SIM_REQUIRE_EQ(pool_.is_idle(block), model_.IsIdle(block), "block ", block);
    SIM_REQUIRE_EQ(notes_.num_uses[block], model_.block(block).num_uses, "block ", block);
  }
  for (const auto& [ref, prefix] : refs_) {
    const NodeRef real{ref.first, ref.second};
    const NaivePrefixCache::Node* const node =
        IsThere(prefix, real) ? model_.Find(prefix) : nullptr;
    SIM_REQUIRE_EQ(cache_.IsPending(real), node != nullptr && node->is_pending);
    if (node == nullptr) continue;
    if (node->is_pending) SIM_REQUIRE_EQ(cache_.OwnerOf(real), node->owner);
    SIM_REQUIRE_EQ(absl::StrJoin(cache_.BlocksOf(real), ","), absl::StrJoin(node->blocks, ","));
  }
  CheckHashes();
}

// When all are gone, all memory can be had, and nothing is found any more.
void CacheWorld::Finish() {
  while (!computing_.empty()) {
    End({"End", 0, 0, 0});
    Check();
  }
  for (int i = 0; i < 3; ++i) CommitStep({});
  Check();
  SIM_REQUIRE(MakeFree(NumBlocks()));
  Check();
  SIM_REQUIRE(model_.nodes().empty());
}

}  // namespace quire
