#include "kernels/cpu/attention_plan.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace quire {
namespace {

// A tile is long when it costs more than 1 / (kTilesPerThread * num_threads) of its phase: workers
// that take whole tiles would not end together.
constexpr int kTilesPerThread = 2;
// What a row costs beside a key, in the unit of AttentionTile::cost; only for the order of tiles.
constexpr int kKeyCost = 4;

constexpr int kAllSplits = std::numeric_limits<int>::max() / kKvSplitTokens;

int64_t MaxTiles(const AttentionConfig& config, int64_t max_rows, int64_t max_parts) {
  return (max_rows / kAttentionTileRows + max_parts) * config.shape.num_kv_heads;
}

// Reads of a split that `size` sequences save together.
int64_t NumSaved(int size, int num_splits) { return (size - int64_t{1}) * num_splits; }

}  // namespace

AttentionPlan::AttentionPlan(const AttentionConfig& config, int num_threads)
    : config_(config),
      group_size_(config.shape.num_heads / config.shape.num_kv_heads),
      blocks_per_split_(kKvSplitTokens / config.block_size),
      num_threads_(num_threads),
      max_long_tiles_(num_threads == 1 ? 0 : num_threads * kTilesPerThread),
      // There is nothing to share unless two tokens fit in a tile.
      max_shared_rows_(2 * group_size_ > kAttentionTileRows ? 0
                                                            : config.max_num_seqs * group_size_) {
  decodes_.reserve(config.max_num_seqs);
  tokens_.reserve(config.max_num_tokens);
  shared_.tiles.reserve(MaxTiles(config, max_shared_rows_, config.max_num_seqs / 2));
  own_.tiles.reserve(
      MaxTiles(config, int64_t{config.max_num_tokens} * group_size_, config.max_num_seqs));
  for (AttentionPhase* phase : {&shared_, &own_}) {
    phase->split_starts.reserve(max_long_tiles_ + 1);
  }
}

void AttentionPlan::Make(const AttentionStep& step) {
  step_ = step;
  decodes_.clear();
  tokens_.clear();
  shared_.tiles.clear();
  own_.tiles.clear();
  const int num_seqs = static_cast<int>(step.query_starts.size()) - 1;
  for (int seq = 0; seq < num_seqs; ++seq) {
    const int token = step.query_starts[seq];
    if (step.query_starts[seq + 1] - token != 1) continue;
    const int position = step.positions[token];
    // Once a window has left the first token, what is shared is soon out of it.
    const bool sees_all = config_.window == 0 || position < config_.window;
    const bool may_share = sees_all && max_shared_rows_ > 0;
    decodes_.push_back({seq, may_share ? position / kKvSplitTokens : 0});
  }
  SortDecodes();
  for (const Decode& decode : decodes_) tokens_.push_back(step.query_starts[decode.seq]);
  AddDecodes();
  for (int seq = 0; seq < num_seqs; ++seq) {
    const int num_tokens = step.query_starts[seq + 1] - step.query_starts[seq];
    if (num_tokens == 1) continue;
    const int begin = static_cast<int>(tokens_.size());
    for (int i = 0; i < num_tokens; ++i) tokens_.push_back(step.query_starts[seq] + i);
    AddTiles(seq, begin, begin + num_tokens, 0, kAllSplits, &own_);
  }
  FindLongTiles(&shared_);
  FindLongTiles(&own_);
}

const int32_t* AttentionPlan::TableOf(const Decode& decode) const {
  return step_.block_tables.data() + int64_t{decode.seq} * step_.max_blocks;
}

void AttentionPlan::SortDecodes() {
  // The order of bytes is as good as that of block ids.
  const size_t split_bytes = blocks_per_split_ * sizeof(int32_t);
  std::sort(decodes_.begin(), decodes_.end(), [&](const Decode& a, const Decode& b) {
    const int num_splits = std::min(a.num_splits, b.num_splits);
    const int order = std::memcmp(TableOf(a), TableOf(b), num_splits * split_bytes);
    return order != 0 ? order < 0 : a.num_splits < b.num_splits;
  });
}

int AttentionPlan::NumCommonSplits(const Decode& a, const Decode& b) const {
  const int32_t* const table = TableOf(a);
  const int num_blocks = std::min(a.num_splits, b.num_splits) * blocks_per_split_;
  const auto differs = std::mismatch(table, table + num_blocks, TableOf(b));
  return static_cast<int>(differs.first - table) / blocks_per_split_;
}

// Cuts decodes_ in groups of neighbours, from left to right: each one joins the group before it, or
// begins the next, or takes the last of that group along, whatever saves most.
void AttentionPlan::AddDecodes() {
  const int num_decodes = static_cast<int>(decodes_.size());
  int begin = 0;
  int num_splits = kAllSplits;  // of the group [begin, i)
  for (int i = 1; i <= num_decodes; ++i) {
    const int next = i == num_decodes ? 0 : NumCommonSplits(decodes_[i - 1], decodes_[i]);
    const int size = i - begin;
    const int64_t joined = NumSaved(size + 1, std::min(num_splits, next));
    const int64_t ended = NumSaved(size, num_splits);
    const int64_t taken = NumSaved(size - 1, num_splits) + NumSaved(2, next);
    if (joined > ended && joined >= taken) {
      num_splits = std::min(num_splits, next);
      continue;
    }
    const int end = taken > ended ? i - 1 : i;
    AddGroup(begin, end, num_splits);
    begin = end;
    num_splits = end == i ? kAllSplits : next;
  }
}

void AttentionPlan::AddGroup(int begin, int end, int num_splits) {
  const int num_shared = end - begin < 2 ? 0 : num_splits;
  if (num_shared > 0) AddTiles(decodes_[begin].seq, begin, end, 0, num_shared, &shared_);
  for (int i = begin; i < end; ++i) {
    AddTiles(decodes_[i].seq, i, i + 1, num_shared, kAllSplits, &own_);
  }
}

void AttentionPlan::AddTiles(int seq, int begin, int end, int first_split, int end_split,
                             AttentionPhase* phase) {
  const int num_kv_heads = config_.shape.num_kv_heads;
  const int end_row = end * group_size_;
  for (int row = begin * group_size_; row < end_row; row += kAttentionTileRows) {
    AttentionTile tile;
    tile.seq = seq;
    tile.first_row = row;
    tile.num_rows = std::min(kAttentionTileRows, end_row - row);
    tile.starts = first_split == 0;
    tile.finishes = end_split == kAllSplits;
    // Positions of a sequence ascend; what several share all of them see.
    const int last_end = step_.positions[TokenOf(tile, tile.num_rows - 1)] + 1;
    tile.end = std::min(last_end, end_split * kKvSplitTokens);
    const int first_end = step_.positions[TokenOf(tile, 0)] + 1;
    const int first_token = std::max(first_split * kKvSplitTokens,
                                     config_.window == 0 ? 0 : first_end - config_.window);
    tile.first_split = first_token / kKvSplitTokens;
    tile.num_splits = (tile.end - 1) / kKvSplitTokens + 1 - tile.first_split;

    const int most_heads = std::min(kAttentionTileRows / tile.num_rows, num_kv_heads);
    const int num_parts = (num_kv_heads + most_heads - 1) / most_heads;
    for (int part = 0; part < num_parts; ++part) {
      tile.first_head = part * num_kv_heads / num_parts;
      tile.num_heads = (part + 1) * num_kv_heads / num_parts - tile.first_head;
      tile.cost = int64_t{tile.end - first_token} * tile.num_heads * (tile.num_rows + kKeyCost);
      phase->tiles.push_back(tile);
    }
  }
}

void AttentionPlan::FindLongTiles(AttentionPhase* phase) const {
  std::vector<AttentionTile>& tiles = phase->tiles;
  std::sort(tiles.begin(), tiles.end(),
            [](const AttentionTile& a, const AttentionTile& b) { return a.cost > b.cost; });
  int64_t total_cost = 0;
  for (const AttentionTile& tile : tiles) total_cost += tile.cost;
  phase->num_long_tiles = 0;
  phase->split_starts.assign(1, 0);
  if (num_threads_ == 1) return;
  for (const AttentionTile& tile : tiles) {
    const bool is_long = tile.cost * num_threads_ * kTilesPerThread > total_cost;
    if (!is_long || tile.num_splits == 1) break;
    ++phase->num_long_tiles;
    phase->split_starts.push_back(phase->split_starts.back() + tile.num_splits);
  }
}

}  // namespace quire
