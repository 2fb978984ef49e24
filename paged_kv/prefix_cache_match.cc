// Looking up prefixes, and holding what was found; and the checks of the whole structure.
#include <algorithm>

#include "kernels/check.h"
#include "paged_kv/capacity.h"
#include "paged_kv/prefix_cache.h"

namespace quire {
namespace {

int32_t CommonLength(absl::Span<const int32_t> a, absl::Span<const int32_t> b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<int32_t>(std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin());
}

}  // namespace

bool PrefixCache::ByTokens::IsLess(absl::Span<const int32_t> a, absl::Span<const int32_t> b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

PrefixMatch PrefixCache::Match(const std::string& salt, absl::Span<const int32_t> tokens,
                               int32_t max_tokens) const {
  const auto num_tokens = static_cast<int32_t>(tokens.size());
  const auto num_groups = static_cast<int32_t>(windows_.size());
  PrefixMatch match;
  match.first_block.assign(num_groups, 0);
  const auto root = roots_.find(salt);
  if (root == roots_.end()) return match;

  std::vector<NodeRef> path;
  std::vector<int32_t> last_absent(num_groups, -1);  // index of the last node without a block
  int32_t parent = root->second;
  for (int32_t begin = 0; begin + block_size_ <= max_tokens; begin += block_size_) {
    const int32_t index = FindChild(parent, tokens.subspan(begin, block_size_));
    if (index < 0) break;
    if (nodes_[index].state == State::kPending) {
      if (match.num_tokens == begin) match.next_pending = RefTo(index);
      break;
    }
    path.push_back(RefTo(index));
    parent = index;
    // Computing would go on at `query`: the last token's row is needed even when all are cached.
    const int32_t end = begin + block_size_;
    const int32_t query = std::min(end, num_tokens - 1);
    bool is_usable = true;
    for (int32_t group = 0; group < num_groups; ++group) {
      if (nodes_[index].blocks[group] == kNoBlock) last_absent[group] = begin / block_size_;
      is_usable &= last_absent[group] < FirstVisibleBlock(windows_[group], query, block_size_);
    }
    if (!is_usable) continue;
    match.num_tokens = end;
    for (int32_t group = 0; group < num_groups; ++group) {
      match.first_block[group] = FirstVisibleBlock(windows_[group], query, block_size_);
    }
  }
  path.resize(match.num_tokens / block_size_);
  match.nodes = std::move(path);

  const int32_t end = std::min({match.num_tokens + block_size_, max_tokens, num_tokens - 1});
  if (end > match.num_tokens) {
    const int32_t last = match.nodes.empty() ? root->second : match.nodes.back().index;
    FindPartial(last, tokens.subspan(match.num_tokens, end - match.num_tokens), &match);
  }
  return match;
}

void PrefixCache::FindPartial(int32_t parent, absl::Span<const int32_t> tokens,
                              PrefixMatch* match) const {
  // Among complete siblings in order of their tokens, the longest common prefix is with a
  // neighbour.
  const auto consider = [&](int32_t index) {
    const Node& node = nodes_[index];
    const int32_t common = CommonLength(TokensOf(index), tokens);
    if (node.parent != parent || common <= match->partial_tokens) return;
    match->partial = RefTo(index);
    match->partial_tokens = common;
  };
  SortComplete();
  const auto after = complete_by_tokens_.lower_bound(Key{parent, tokens});
  if (after != complete_by_tokens_.end()) consider(after->node);
  if (after != complete_by_tokens_.begin()) consider(std::prev(after)->node);
}

bool PrefixCache::CanGoOnAfter(absl::Span<const NodeRef> nodes) const {
  const auto num_nodes = static_cast<int32_t>(nodes.size());
  for (size_t group = 0; group < windows_.size(); ++group) {
    if (windows_[group] == 0) continue;
    int32_t i = FirstVisibleBlock(windows_[group], num_nodes * block_size_, block_size_);
    for (; i < num_nodes; ++i) {
      if (nodes_[nodes[i].index].blocks[group] == kNoBlock) return false;
    }
  }
  return true;
}

void PrefixCache::Hold(const PrefixMatch& match, BlockTable* table) {
  QUIRE_CHECK(table->num_blocks() == 0, "the table is empty");
  std::vector<BlockId> held(windows_.size());
  for (size_t i = 0; i < match.nodes.size(); ++i) {
    QUIRE_CHECK(IsAlive(match.nodes[i]), "the match is fresh");
    const Node& node = nodes_[match.nodes[i].index];
    for (size_t group = 0; group < windows_.size(); ++group) {
      const bool is_visible = static_cast<int32_t>(i) >= match.first_block[group];
      held[group] = is_visible ? node.blocks[group] : kNoBlock;
      if (!is_visible) continue;
      pool_->Hold(held[group]);
      policy_->Use(held[group], node.hash, now_us_);
    }
    table->Append(held);
  }
}

absl::Span<const BlockId> PrefixCache::BlocksOf(NodeRef node) const {
  QUIRE_CHECK(IsAlive(node), "the node is there");
  return nodes_[node.index].blocks;
}

void PrefixCache::CheckInvariants() const {
  SortComplete();
  std::vector<int32_t> num_children(nodes_.size());
  int32_t num_blocks = 0;
  size_t num_complete = 0;
  for (int32_t index = 0; index < static_cast<int32_t>(nodes_.size()); ++index) {
    const Node& node = nodes_[index];
    if (node.state == State::kUnused) continue;
    CheckNode(index);
    num_complete += IsComplete(node) && node.state == State::kValid;
    if (node.parent >= 0) ++num_children[node.parent];
    for (const BlockId block : node.blocks) num_blocks += block != kNoBlock;
  }
  QUIRE_CHECK(num_complete == complete_by_tokens_.size(), "invariant 4");
  int32_t num_cached = 0;
  for (BlockId block = 0; block < pool_->num_blocks(); ++block) {
    num_cached += pool_->is_cached(block);
    QUIRE_CHECK(pool_->is_cached(block) == (node_of_block_[block] >= 0), "invariant 3");
  }
  QUIRE_CHECK(num_cached == num_blocks, "invariant 3");
  for (size_t index = 0; index < nodes_.size(); ++index) {
    const Node& node = nodes_[index];
    QUIRE_CHECK(node.state == State::kUnused || node.num_children == num_children[index],
                "invariant 4");
  }
}

void PrefixCache::CheckNode(int32_t index) const {
  const Node& node = nodes_[index];
  QUIRE_CHECK((node.state == State::kRoot) == (node.parent < 0), "invariant 4");
  if (node.state == State::kRoot) {
    QUIRE_CHECK(roots_.at(node.salt) == index && node.num_children > 0, "invariant 4");
    return;
  }
  const Node& parent = nodes_[node.parent];
  QUIRE_CHECK(FindChild(node.parent, TokensOf(index)) == index, "invariant 4");
  QUIRE_CHECK(complete_by_tokens_.contains(Child{node.parent, index}) == IsComplete(node),
              "invariant 4");
  QUIRE_CHECK(parent.state != State::kUnused, "invariant 4");
  QUIRE_CHECK(parent.state != State::kPending || node.state == State::kPending, "invariant 5");
  for (size_t group = 0; group < windows_.size(); ++group) {
    const BlockId block = node.blocks[group];
    if (block == kNoBlock) {
      QUIRE_CHECK(windows_[group] > 0 || node.state == State::kPending, "invariant 5");
      continue;
    }
    QUIRE_CHECK(node.state == State::kValid, "invariant 5");
    QUIRE_CHECK(pool_->is_cached(block) && node_of_block_[block] == index, "invariant 3");
    QUIRE_CHECK(group_of_block_[block] == static_cast<int32_t>(group), "invariant 3");
    if (windows_[group] > 0 || parent.state == State::kRoot) continue;
    const BlockId above = parent.blocks[group];
    QUIRE_CHECK(pool_->num_holders(block) <= pool_->num_holders(above), "invariant 6");
    QUIRE_CHECK(!pool_->is_idle(above) || pool_->is_idle(block), "invariant 6");
  }
}

}  // namespace quire
