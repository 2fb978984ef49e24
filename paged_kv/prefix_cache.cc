#include "paged_kv/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "absl/hash/hash.h"

#include "kernels/check.h"
#include "paged_kv/reserve_touched.h"

namespace quire {
namespace {

// Nodes beside those of cached blocks: roots, and promises.
constexpr size_t kSpareNodes = 256;

}  // namespace

PrefixCache::PrefixCache(const PrefixCacheConfig& config, BlockPool* pool,
                         std::unique_ptr<EvictionPolicy> policy)
    : block_size_(config.block_size),
      windows_(config.group_windows),
      hash_mask_(config.hash_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << config.hash_bits) - 1),
      pool_(pool),
      policy_(std::move(policy)),
      nodes_(pool->num_blocks() + kSpareNodes),
      tokens_(nodes_.size() * config.block_size),
      unused_nodes_(nodes_.size()),
      first_in_bucket_(std::bit_ceil(nodes_.size()), -1),
      complete_by_tokens_(ByTokens{this}),
      node_of_block_(pool->num_blocks(), -1),
      group_of_block_(pool->num_blocks(), -1) {
  std::iota(unused_nodes_.rbegin(), unused_nodes_.rend(), 0);
  ReserveTouched(nodes_.size(), &unsorted_);
  roots_.reserve(kSpareNodes);
  QUIRE_CHECK(block_size_ > 0 && !windows_.empty(), "blocks have slots and there is a group");
  const auto full = std::find(windows_.begin(), windows_.end(), 0);
  if (full != windows_.end()) full_group_ = static_cast<int32_t>(full - windows_.begin());
  pool_->SetListener(this);
}

PrefixCache::~PrefixCache() { pool_->SetListener(nullptr); }

NodeRef PrefixCache::Root(const std::string& salt) {
  const auto [root, is_new] = roots_.try_emplace(salt, -1);
  if (is_new) {
    root->second = AddNode(State::kRoot, -1, {});
    Node& node = nodes_[root->second];
    node.salt = salt;
    node.hash = absl::HashOf(salt);
  }
  return RefTo(root->second);
}

NodeRef PrefixCache::AddPending(NodeRef parent, absl::Span<const int32_t> tokens, uint64_t owner) {
  QUIRE_CHECK(IsAlive(parent) && FindChild(parent.index, tokens) < 0, "a promise is made once");
  const int32_t index = AddNode(State::kPending, parent.index, tokens);
  nodes_[index].owner = owner;
  return RefTo(index);
}

void PrefixCache::Fulfil(NodeRef pending, absl::Span<const BlockId> blocks) {
  QUIRE_CHECK(IsPending(pending), "the node is PENDING");
  nodes_[pending.index].state = State::kValid;
  SetBlocks(pending.index, blocks);
}

void PrefixCache::ErasePending(NodeRef pending) {
  QUIRE_CHECK(IsPending(pending), "the node is PENDING");
  PruneFrom(EraseNode(pending.index));
}

NodeRef PrefixCache::Publish(NodeRef parent, absl::Span<const int32_t> tokens,
                             absl::Span<const BlockId> blocks) {
  if (!IsAlive(parent)) return {};
  int32_t index = FindChild(parent.index, tokens);
  if (index < 0) {
    index = AddNode(State::kValid, parent.index, tokens);
  } else {
    // The first commit wins, unless what is there lacks window blocks and nobody needs it: IDLE,
    // and so are its descendants.
    if (nodes_[index].state != State::kValid || IsComplete(nodes_[index])) return {};
    if (!IsIdle(nodes_[index])) return {};
    ClearBlocks(index);
  }
  SetBlocks(index, blocks);
  return RefTo(index);
}

void PrefixCache::Prune(NodeRef node) {
  if (IsAlive(node)) PruneFrom(node.index);
}

bool PrefixCache::HasChild(NodeRef parent, absl::Span<const int32_t> tokens) const {
  return IsAlive(parent) && FindChild(parent.index, tokens) >= 0;
}

bool PrefixCache::IsPending(NodeRef node) const {
  return IsAlive(node) && nodes_[node.index].state == State::kPending;
}

uint64_t PrefixCache::OwnerOf(NodeRef pending) const {
  QUIRE_CHECK(IsPending(pending), "the node is PENDING");
  return nodes_[pending.index].owner;
}

bool PrefixCache::MakeFree(int32_t count) {
  while (pool_->num_free() < count) {
    if (!EvictOne()) return false;
  }
  return true;
}

bool PrefixCache::EvictOne() {
  const BlockId block = policy_->Next(now_us_);
  if (block == kNoBlock) return false;
  const int32_t index = node_of_block_[block];
  const int32_t group = group_of_block_[block];
  if (windows_[group] == 0) {
    PruneFrom(EraseNode(index));
  } else {
    ClearBlock(index, group);
    PruneFrom(index);
  }
  return true;
}

// ---- blocks of a node ----

bool PrefixCache::IsComplete(const Node& node) const {
  return std::find(node.blocks.begin(), node.blocks.end(), kNoBlock) == node.blocks.end();
}

bool PrefixCache::IsIdle(const Node& node) const {
  return std::all_of(node.blocks.begin(), node.blocks.end(),
                     [this](BlockId block) { return block == kNoBlock || pool_->is_idle(block); });
}

void PrefixCache::SetBlocks(int32_t index, absl::Span<const BlockId> blocks) {
  QUIRE_CHECK(blocks.size() == windows_.size(), "one block per group");
  Node& node = nodes_[index];
  node.blocks.assign(blocks.begin(), blocks.end());
  for (size_t group = 0; group < blocks.size(); ++group) {
    if (blocks[group] == kNoBlock) {
      QUIRE_CHECK(windows_[group] > 0, "only window blocks may be absent");
      continue;
    }
    pool_->MarkCached(blocks[group]);
    node_of_block_[blocks[group]] = index;
    group_of_block_[blocks[group]] = static_cast<int32_t>(group);
    policy_->Use(blocks[group], node.hash, now_us_);
  }
  if (!IsComplete(node)) return;
  if (unsorted_.size() == unsorted_.capacity()) SortComplete();
  unsorted_.push_back(index);
}

void PrefixCache::SortComplete() const {
  for (const int32_t index : unsorted_) {
    const Node& node = nodes_[index];
    if (node.state == State::kValid && IsComplete(node)) {
      complete_by_tokens_.insert({node.parent, index});
    }
  }
  unsorted_.clear();
}

void PrefixCache::ClearBlock(int32_t index, int32_t group) {
  const BlockId block = std::exchange(nodes_[index].blocks[group], kNoBlock);
  if (block == kNoBlock) return;
  complete_by_tokens_.erase(Child{nodes_[index].parent, index});
  if (windows_[group] > 0 && pool_->is_idle(block)) policy_->Withdraw(block);
  policy_->Forget(block);
  node_of_block_[block] = -1;
  group_of_block_[block] = -1;
  pool_->Uncache(block);
}

void PrefixCache::ClearBlocks(int32_t index) {
  Node& node = nodes_[index];
  if (node.offered) policy_->Withdraw(node.blocks[full_group_]);
  node.offered = false;
  for (size_t group = 0; group < node.blocks.size(); ++group) {
    ClearBlock(index, static_cast<int32_t>(group));
  }
}

void PrefixCache::OnIdle(BlockId block) {
  const int32_t index = node_of_block_[block];
  policy_->Use(block, nodes_[index].hash, now_us_);
  if (windows_[group_of_block_[block]] > 0) {
    policy_->Offer(block);
  } else {
    UpdateOffer(index);
  }
}

void PrefixCache::OnHeldAgain(BlockId block) {
  if (windows_[group_of_block_[block]] > 0) {
    policy_->Withdraw(block);
  } else {
    UpdateOffer(node_of_block_[block]);
  }
}

void PrefixCache::UpdateOffer(int32_t index) {
  Node& node = nodes_[index];
  if (full_group_ < 0 || node.state != State::kValid) return;
  bool is_candidate = node.num_children == 0;
  for (size_t group = 0; group < windows_.size() && is_candidate; ++group) {
    is_candidate = windows_[group] > 0 || pool_->is_idle(node.blocks[group]);
  }
  if (is_candidate == node.offered) return;
  node.offered = is_candidate;
  if (is_candidate) {
    policy_->Offer(node.blocks[full_group_]);
  } else {
    policy_->Withdraw(node.blocks[full_group_]);
  }
}

// ---- the tree ----

bool PrefixCache::IsAlive(NodeRef ref) const {
  return !ref.is_none() && nodes_[ref.index].generation == ref.generation;
}

uint64_t PrefixCache::HashOf(uint64_t parent_hash, absl::Span<const int32_t> tokens) const {
  return absl::HashOf(parent_hash, tokens) & hash_mask_;
}

absl::Span<const int32_t> PrefixCache::TokensOf(int32_t index) const {
  return absl::MakeConstSpan(tokens_).subspan(static_cast<size_t>(index) * block_size_,
                                              block_size_);
}

int32_t PrefixCache::FindChild(int32_t parent, absl::Span<const int32_t> tokens) const {
  const uint64_t hash = HashOf(nodes_[parent].hash, tokens);
  const auto is_it = [&](int32_t index) {
    const Node& node = nodes_[index];
    return node.hash == hash && node.parent == parent && TokensOf(index) == tokens;
  };
  int32_t index = first_in_bucket_[BucketOf(hash)];
  while (index >= 0 && !is_it(index)) index = nodes_[index].next_in_bucket;
  return index;
}

int32_t PrefixCache::AddNode(State state, int32_t parent, absl::Span<const int32_t> tokens) {
  if (unused_nodes_.empty()) {
    unused_nodes_.push_back(static_cast<int32_t>(nodes_.size()));
    nodes_.emplace_back();
    tokens_.resize(nodes_.size() * block_size_);
  }
  const int32_t index = unused_nodes_.back();
  unused_nodes_.pop_back();
  Node& node = nodes_[index];
  node.state = state;
  node.parent = parent;
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + int64_t{index} * block_size_);
  node.blocks.assign(windows_.size(), kNoBlock);
  if (parent >= 0) {
    QUIRE_CHECK(static_cast<int32_t>(tokens.size()) == block_size_, "a node is a full block");
    node.hash = HashOf(nodes_[parent].hash, tokens);
    int32_t& first = first_in_bucket_[BucketOf(node.hash)];
    node.next_in_bucket = std::exchange(first, index);
    ++nodes_[parent].num_children;
    UpdateOffer(parent);
  }
  return index;
}

int32_t PrefixCache::EraseNode(int32_t index) {
  Node& node = nodes_[index];
  QUIRE_CHECK(node.num_children == 0, "leaves first");
  ClearBlocks(index);
  if (node.state == State::kRoot) {
    roots_.erase(node.salt);
  } else {
    UnlinkHash(index);
  }
  node.state = State::kUnused;
  ++node.generation;
  unused_nodes_.push_back(index);
  if (node.parent >= 0) {
    --nodes_[node.parent].num_children;
    UpdateOffer(node.parent);
  }
  return node.parent;
}

void PrefixCache::UnlinkHash(int32_t index) {
  int32_t* link = &first_in_bucket_[BucketOf(nodes_[index].hash)];
  while (*link != index) link = &nodes_[*link].next_in_bucket;
  *link = nodes_[index].next_in_bucket;
}

void PrefixCache::PruneFrom(int32_t index) {
  while (index >= 0) {
    const Node& node = nodes_[index];
    const bool is_empty = std::all_of(node.blocks.begin(), node.blocks.end(),
                                      [](BlockId block) { return block == kNoBlock; });
    if (node.num_children > 0 || node.state == State::kPending || !is_empty) return;
    index = EraseNode(index);
  }
}

}  // namespace quire
