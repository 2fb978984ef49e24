#include "server/stop_strings.h"

namespace quire {
namespace {

uint64_t Key(int32_t node, uint8_t byte) {
  return uint64_t{static_cast<uint32_t>(node)} << 8 | byte;
}

}  // namespace

StopStrings::StopStrings(absl::Span<const std::string> strings)
    : strings_(strings.begin(), strings.end()), nodes_(1) {
  // All strings grow by one byte a round, so that nodes are made in the order of their depth, and
  // what a node fails to is complete before it.
  std::vector<int32_t> at(strings_.size(), 0);
  for (size_t depth = 0, num_growing = strings_.size(); num_growing > 0; ++depth) {
    num_growing = 0;
    for (size_t i = 0; i < strings_.size(); ++i) {
      if (depth >= strings_[i].size()) continue;
      ++num_growing;
      const auto byte = static_cast<uint8_t>(strings_[i][depth]);
      const int32_t parent = at[i];
      const auto made = static_cast<int32_t>(nodes_.size());
      const auto [it, is_new] = children_.emplace(Key(parent, byte), made);
      at[i] = it->second;
      if (is_new) {
        Node node;
        node.depth = static_cast<int32_t>(depth) + 1;
        node.fail = parent == 0 ? 0 : Next(nodes_[static_cast<size_t>(parent)].fail, byte);
        nodes_[static_cast<size_t>(parent)].goes_on = true;
        nodes_.push_back(node);
      }
      Node& node = nodes_[static_cast<size_t>(at[i])];
      // Of equal strings the first.
      if (depth + 1 == strings_[i].size() && node.longest < 0)
        node.longest = static_cast<int32_t>(i);
    }
  }
  for (Node& node : nodes_) {
    const Node& shorter = nodes_[static_cast<size_t>(node.fail)];
    if (node.longest < 0) node.longest = shorter.longest;
    node.held = node.goes_on ? node.depth : shorter.held;
  }
}

int32_t StopStrings::Child(int32_t node, uint8_t byte) const {
  const auto it = children_.find(Key(node, byte));
  return it == children_.end() ? -1 : it->second;
}

int32_t StopStrings::Next(int32_t node, uint8_t byte) const {
  for (;;) {
    const int32_t child = Child(node, byte);
    if (child >= 0) return child;
    if (node == 0) return 0;
    node = nodes_[static_cast<size_t>(node)].fail;
  }
}

std::optional<StopScan::Match> StopScan::Feed(absl::string_view piece, bool may_stop) {
  std::optional<Match> first;
  for (const char c : piece) {
    node_ = strings_->Next(node_, static_cast<uint8_t>(c));
    ++num_bytes_;
    const int32_t index = strings_->nodes_[static_cast<size_t>(node_)].longest;
    if (index < 0 || !may_stop) continue;
    // Shorter strings that end here begin later.
    const int64_t begin = num_bytes_ - static_cast<int64_t>((*strings_)[index].size());
    if (!first || begin < first->begin || (begin == first->begin && index < first->index)) {
      first = {begin, index};
    }
  }
  return first;
}

int64_t StopScan::num_held() const { return strings_->nodes_[static_cast<size_t>(node_)].held; }

}  // namespace quire
