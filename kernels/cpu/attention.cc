#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cstring>

namespace quire {

// Defined by attention_bf16x2_<isa>.cc and attention_bf16x32_<isa>.cc.
namespace isa_reference {
extern const AttentionKernels kAttentionKernels;
extern const AttentionKernels kBf16x32AttentionKernels;
}  // namespace isa_reference
namespace isa_avx2 {
extern const AttentionKernels kAttentionKernels;
extern const AttentionKernels kBf16x32AttentionKernels;
}  // namespace isa_avx2
namespace isa_avx512 {
extern const AttentionKernels kAttentionKernels;
extern const AttentionKernels kBf16x32AttentionKernels;
}  // namespace isa_avx512
namespace isa_avx512bf16 {
extern const AttentionKernels kAttentionKernels;
}
namespace isa_amx {
extern const AttentionKernels kBf16x32AttentionKernels;
}

namespace {

const AttentionKernels& Bf16x2KernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kReference:
      break;
    case CpuIsa::kAvx2:
      return isa_avx2::kAttentionKernels;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
      return isa_avx512::kAttentionKernels;
    case CpuIsa::kAvx512Bf16:
    case CpuIsa::kAmx:
      return isa_avx512bf16::kAttentionKernels;
  }
  return isa_reference::kAttentionKernels;
}

const AttentionKernels& Bf16x32KernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kReference:
      break;
    case CpuIsa::kAvx2:
      return isa_avx2::kBf16x32AttentionKernels;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
    case CpuIsa::kAvx512Bf16:
      return isa_avx512::kBf16x32AttentionKernels;
    case CpuIsa::kAmx:
      return isa_amx::kBf16x32AttentionKernels;
  }
  return isa_reference::kBf16x32AttentionKernels;
}

}  // namespace

const AttentionKernels& AttentionKernelsFor(CpuIsa isa, NumericsMode mode) {
  return mode == NumericsMode::kBf16x32 ? Bf16x32KernelsFor(isa) : Bf16x2KernelsFor(isa);
}

namespace {

// A tile is long when it costs more than 1 / (kTilesPerThread * num_threads) of the step: workers
// that take whole tiles would not end together.
constexpr int kTilesPerThread = 2;
// Splits that a worker computes between two meetings of all workers: some 3 us each, where a
// meeting costs about one.
constexpr int kWaveSplitsPerThread = 8;
// What a row costs beside a key, in the unit of Tile::cost; only for the order of tiles.
constexpr int kKeyCost = 4;

constexpr int64_t kLineFloats = 16;  // 64 bytes

int64_t RoundToLine(int64_t num_floats) {
  return (num_floats + kLineFloats - 1) / kLineFloats * kLineFloats;
}

int64_t PartialFloats(int padded_head_dim) {
  return 2 * RoundToLine(kAttentionTileRows) + int64_t{kAttentionTileRows} * padded_head_dim;
}

// Takes memory from a buffer, in whole cache lines.
class Carver {
 public:
  explicit Carver(float* begin) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(begin);
    next_ = begin + (64 - address % 64) % 64 / sizeof(float);
  }
  float* Take(int64_t num_floats) {
    float* const taken = next_;
    next_ += RoundToLine(num_floats);
    return taken;
  }
  AttentionPartial TakePartial(int padded_head_dim) {
    return {.m = Take(kAttentionTileRows),
            .l = Take(kAttentionTileRows),
            .o = Take(int64_t{kAttentionTileRows} * padded_head_dim)};
  }

 private:
  float* next_;
};

}  // namespace

PagedAttention::PagedAttention(const Config& config, const AttentionKernels& kernels,
                               ThreadPool* pool)
    : config_(config),
      block_{.num_kv_heads = config.shape.num_kv_heads,
             .block_size = config.block_size,
             .padded_head_dim = PaddedHeadDim(config.shape.head_dim)},
      group_size_(config.shape.num_heads / config.shape.num_kv_heads),
      kernels_(kernels),
      pool_(pool) {
  const int num_threads = pool->num_threads();
  const int num_slots = num_threads == 1 ? 0 : num_threads * kWaveSplitsPerThread;
  const int max_long_tiles = num_threads == 1 ? 0 : num_threads * kTilesPerThread;
  const int padded = block_.padded_head_dim;
  constexpr int64_t kScoreElems = int64_t{kAttentionTileRows} * kKvSplitTokens;
  const int64_t q_floats = RoundToLine(int64_t{kAttentionTileRows} * padded / 2);

  const int64_t num_partials = 2 * num_threads + num_slots + max_long_tiles;
  memory_.resize(kLineFloats + num_threads * (q_floats + kScoreElems + kScoreElems / 2) +
                 num_partials * PartialFloats(padded));
  Carver carver(memory_.data());
  scratch_.resize(num_threads);
  for (Scratch& scratch : scratch_) {
    scratch.q = reinterpret_cast<uint16_t*>(carver.Take(q_floats));
    scratch.kernel.scores = carver.Take(kScoreElems);
    scratch.kernel.probs = reinterpret_cast<uint16_t*>(carver.Take(kScoreElems / 2));
    scratch.partial = carver.TakePartial(padded);
    scratch.state = carver.TakePartial(padded);
  }
  slots_.resize(num_slots);
  for (AttentionPartial& slot : slots_) slot = carver.TakePartial(padded);
  long_states_.resize(max_long_tiles);
  for (AttentionPartial& state : long_states_) state = carver.TakePartial(padded);

  const int64_t max_rows = int64_t{config.max_num_tokens} * group_size_;
  const int64_t max_tiles = max_rows / kAttentionTileRows + config.max_num_seqs;
  tiles_.reserve(max_tiles * config.shape.num_kv_heads);
  split_starts_.reserve(max_long_tiles + 1);
}

void PagedAttention::AddTiles(int seq) {
  const int first_token = step_.query_starts[seq];
  const int num_rows = (step_.query_starts[seq + 1] - first_token) * group_size_;
  const int num_kv_heads = config_.shape.num_kv_heads;
  for (int first_row = 0; first_row < num_rows; first_row += kAttentionTileRows) {
    Tile tile;
    tile.seq = seq;
    tile.first_row = first_row;
    tile.num_rows = std::min(kAttentionTileRows, num_rows - first_row);
    // Positions of a sequence ascend.
    const int last_row = first_row + tile.num_rows - 1;
    tile.end = step_.positions[first_token + last_row / group_size_] + 1;
    const int first_end = step_.positions[first_token + first_row / group_size_] + 1;
    const int begin = config_.window == 0 ? 0 : std::max(0, first_end - config_.window);
    tile.first_split = begin / kKvSplitTokens;
    tile.num_splits = (tile.end - 1) / kKvSplitTokens + 1 - tile.first_split;

    const int most_heads = std::min(kAttentionTileRows / tile.num_rows, num_kv_heads);
    const int num_parts = (num_kv_heads + most_heads - 1) / most_heads;
    for (int part = 0; part < num_parts; ++part) {
      tile.first_head = part * num_kv_heads / num_parts;
      tile.num_heads = (part + 1) * num_kv_heads / num_parts - tile.first_head;
      tile.cost = int64_t{tile.end - begin} * tile.num_heads * (tile.num_rows + kKeyCost);
      tiles_.push_back(tile);
    }
  }
}

void PagedAttention::Plan(const AttentionStep& step) {
  step_ = step;
  tiles_.clear();
  const int num_seqs = static_cast<int>(step.query_starts.size()) - 1;
  for (int seq = 0; seq < num_seqs; ++seq) AddTiles(seq);
  std::sort(tiles_.begin(), tiles_.end(),
            [](const Tile& a, const Tile& b) { return a.cost > b.cost; });

  int64_t total_cost = 0;
  for (const Tile& tile : tiles_) total_cost += tile.cost;
  num_long_tiles_ = 0;
  split_starts_.assign(1, 0);
  if (pool_->num_threads() == 1) return;
  for (const Tile& tile : tiles_) {
    const bool is_long = tile.cost * pool_->num_threads() * kTilesPerThread > total_cost;
    if (!is_long || tile.num_splits == 1) break;
    ++num_long_tiles_;
    split_starts_.push_back(split_starts_.back() + tile.num_splits);
  }
}

void PagedAttention::Run(const AttentionLayer& layer) {
  if (num_long_tiles_ > 0) RunLongTiles(layer);
  const int num_tiles = static_cast<int>(tiles_.size());
  pool_->Run(num_tiles - num_long_tiles_, [&](int chunk, int worker) {
    RunTile(layer, tiles_[num_long_tiles_ + chunk], worker);
  });
}

void PagedAttention::RunTile(const AttentionLayer& layer, const Tile& tile, int worker) {
  const Scratch& scratch = scratch_[worker];
  const int num_rows = tile.num_heads * tile.num_rows;
  std::fill_n(scratch.state.l, num_rows, 0.0f);
  for (int i = 0; i < tile.num_splits; ++i) {
    ComputeSplit(layer, tile, tile.first_split + i, worker, scratch.partial);
    kernels_.merge(scratch.partial, num_rows, block_.padded_head_dim, scratch.state);
  }
  Finish(layer, tile, scratch.state);
}

void PagedAttention::RunLongTiles(const AttentionLayer& layer) {
  const int64_t num_splits = split_starts_.back();
  const int64_t wave = static_cast<int64_t>(slots_.size());
  for (int64_t begin = 0; begin < num_splits; begin += wave) {
    const int64_t end = std::min(begin + wave, num_splits);
    const auto tile_of = [&](int64_t split) {
      const auto after = std::upper_bound(split_starts_.begin(), split_starts_.end(), split);
      return static_cast<int>(after - split_starts_.begin()) - 1;
    };
    pool_->Run(static_cast<int>(end - begin), [&](int chunk, int worker) {
      const int tile_idx = tile_of(begin + chunk);
      const Tile& tile = tiles_[tile_idx];
      const int split =
          tile.first_split + static_cast<int>(begin + chunk - split_starts_[tile_idx]);
      ComputeSplit(layer, tile, split, worker, slots_[chunk]);
    });
    const int first_tile = tile_of(begin);
    pool_->Run(tile_of(end - 1) + 1 - first_tile,
               [&](int chunk, int) { MergeWave(layer, first_tile + chunk, begin, end); });
  }
}

void PagedAttention::MergeWave(const AttentionLayer& layer, int tile_idx, int64_t begin,
                               int64_t end) {
  const Tile& tile = tiles_[tile_idx];
  const int num_rows = tile.num_heads * tile.num_rows;
  const AttentionPartial& state = long_states_[tile_idx];
  const int64_t tile_begin = split_starts_[tile_idx];
  const int64_t tile_end = split_starts_[tile_idx + 1];
  if (begin <= tile_begin) std::fill_n(state.l, num_rows, 0.0f);
  for (int64_t i = std::max(begin, tile_begin); i < std::min(end, tile_end); ++i) {
    kernels_.merge(slots_[i - begin], num_rows, block_.padded_head_dim, state);
  }
  if (tile_end <= end) Finish(layer, tile, state);
}

void PagedAttention::FindVisible(const Tile& tile, int split_start, AttentionSplit* split) const {
  int first = kKvSplitTokens;
  int last = 0;
  for (int row = 0; row < tile.num_rows; ++row) {
    const int end = step_.positions[TokenOf(tile, row)] + 1 - split_start;
    const int begin = config_.window == 0 ? 0 : end - config_.window;
    split->hi[row] = std::clamp(end, 0, kKvSplitTokens);
    split->lo[row] = std::clamp(begin, 0, kKvSplitTokens);
    if (split->lo[row] >= split->hi[row]) continue;
    first = std::min(first, split->lo[row]);
    last = std::max(last, split->hi[row]);
  }
  split->group_begin = first / kKvGroupTokens;
  split->group_end = (last + kKvGroupTokens - 1) / kKvGroupTokens;
}

void PagedAttention::ComputeSplit(const AttentionLayer& layer, const Tile& tile, int split_idx,
                                  int worker, const AttentionPartial& partial) {
  const int padded = block_.padded_head_dim;
  const int split_start = split_idx * kKvSplitTokens;
  uint16_t* const q = scratch_[worker].q;
  AttentionSplit split;
  split.q = q;
  split.num_rows = tile.num_rows;
  split.padded_head_dim = padded;
  split.scale = config_.shape.scale;
  FindVisible(tile, split_start, &split);

  // Where the 16 tokens from `token` lie, but for the base of the layer and the head.
  const int32_t* table = step_.block_tables.data() + int64_t{tile.seq} * step_.max_blocks;
  const auto tokens_at = [&](int token) {
    const int64_t block_id = table[token / config_.block_size];
    return reinterpret_cast<const uint16_t*>(layer.kv + block_id * config_.block_bytes) +
           int64_t{token % config_.block_size} * padded;
  };
  const uint16_t* tokens[kKvGroupsPerSplit];
  const uint16_t* next_tokens[kKvGroupsPerSplit];
  for (int group = split.group_begin; group < split.group_end; ++group) {
    const int token = split_start + group * kKvGroupTokens;
    tokens[group] = tokens_at(token);
    const int next = token + kKvSplitTokens;
    next_tokens[group] = next < tile.end ? tokens_at(next) : tokens[group];
  }

  // Heads of a block are neighbours in memory: all of them before the next split.
  for (int i = 0; i < tile.num_heads; ++i) {
    const int kv_head = tile.first_head + i;
    const bool is_last = i + 1 == tile.num_heads;
    const int64_t key_base = KvKeyBase(block_, layer.layer_in_group, kv_head);
    const int64_t value_base = KvValueBase(block_, layer.layer_in_group, kv_head);
    const int64_t next_base =
        KvKeyBase(block_, layer.layer_in_group, is_last ? tile.first_head : kv_head + 1);
    for (int group = split.group_begin; group < split.group_end; ++group) {
      split.k[group] = tokens[group] + key_base;
      split.v[group] = tokens[group] + value_base;
      split.next_k[group] = (is_last ? next_tokens : tokens)[group] + next_base;
    }
    for (int row = 0; row < tile.num_rows; ++row) {
      const int64_t head = HeadOf(tile, kv_head, row);
      std::memcpy(q + row * padded,
                  layer.q + (TokenOf(tile, row) * int64_t{config_.shape.num_heads} + head) * padded,
                  padded * sizeof(uint16_t));
    }
    const int first_row = i * tile.num_rows;
    kernels_.compute_split(split, scratch_[worker].kernel,
                           {.m = partial.m + first_row,
                            .l = partial.l + first_row,
                            .o = partial.o + int64_t{first_row} * padded});
  }
}

void PagedAttention::Finish(const AttentionLayer& layer, const Tile& tile,
                            const AttentionPartial& state) {
  uint16_t* out[kAttentionTileRows];
  for (int i = 0; i < tile.num_heads; ++i) {
    for (int row = 0; row < tile.num_rows; ++row) {
      const int head = HeadOf(tile, tile.first_head + i, row);
      out[i * tile.num_rows + row] = layer.out + TokenOf(tile, row) * layer.out_stride +
                                     int64_t{head} * config_.shape.head_dim;
    }
  }
  kernels_.finish(state, tile.num_heads * tile.num_rows, config_.shape.head_dim,
                  block_.padded_head_dim, out);
}

int PagedAttention::TokenOf(const Tile& tile, int row) const {
  return step_.query_starts[tile.seq] + (tile.first_row + row) / group_size_;
}

int PagedAttention::HeadOf(const Tile& tile, int kv_head, int row) const {
  return kv_head * group_size_ + (tile.first_row + row) % group_size_;
}

}  // namespace quire
