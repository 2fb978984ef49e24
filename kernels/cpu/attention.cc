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
    case CpuIsa::kAmx:  // where VDPBF16PS does half of what FMA does
      return isa_avx512::kAttentionKernels;
    case CpuIsa::kAvx512Bf16:
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
  return GoesByBlocks(mode) ? Bf16x32KernelsFor(isa) : Bf16x2KernelsFor(isa);
}

namespace {

// Splits that a worker computes between two meetings of all workers: some 3 us each, where a
// meeting costs about one.
constexpr int kWaveSplitsPerThread = 8;
constexpr int64_t kLineFloats = 16;  // 64 bytes

int64_t RoundToLine(int64_t num_floats) {
  return (num_floats + kLineFloats - 1) / kLineFloats * kLineFloats;
}

int64_t PartialFloats(int64_t num_rows, int padded_head_dim) {
  return 2 * RoundToLine(num_rows) + num_rows * padded_head_dim;
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
  AttentionPartial TakePartial(int64_t num_rows, int padded_head_dim) {
    return {.m = Take(num_rows), .l = Take(num_rows), .o = Take(num_rows * padded_head_dim)};
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
      kernels_(kernels),
      pool_(pool),
      plan_(config, pool->num_threads()) {
  const int num_threads = pool->num_threads();
  const int num_slots = num_threads == 1 ? 0 : num_threads * kWaveSplitsPerThread;
  const int padded = block_.padded_head_dim;
  constexpr int64_t kScoreElems = int64_t{kAttentionTileRows} * kKvSplitTokens;
  const int64_t q_floats = RoundToLine(int64_t{kAttentionTileRows} * padded / 2);
  const int64_t shared_rows = int64_t{config.shape.num_kv_heads} * plan_.max_shared_rows();

  const int64_t num_partials = 2 * num_threads + num_slots + plan_.max_long_tiles();
  memory_.resize(kLineFloats + num_threads * (q_floats + kScoreElems + kScoreElems / 2) +
                 num_partials * PartialFloats(kAttentionTileRows, padded) +
                 PartialFloats(shared_rows, padded));
  Carver carver(memory_.data());
  scratch_.resize(num_threads);
  for (Scratch& scratch : scratch_) {
    scratch.q = reinterpret_cast<uint16_t*>(carver.Take(q_floats));
    scratch.kernel.scores = carver.Take(kScoreElems);
    scratch.kernel.probs = reinterpret_cast<uint16_t*>(carver.Take(kScoreElems / 2));
    scratch.partial = carver.TakePartial(kAttentionTileRows, padded);
    scratch.state = carver.TakePartial(kAttentionTileRows, padded);
  }
  slots_.resize(num_slots);
  for (AttentionPartial& slot : slots_) slot = carver.TakePartial(kAttentionTileRows, padded);
  long_states_.resize(plan_.max_long_tiles());
  for (AttentionPartial& state : long_states_) {
    state = carver.TakePartial(kAttentionTileRows, padded);
  }
  shared_states_ = carver.TakePartial(shared_rows, padded);
}

void PagedAttention::Plan(const AttentionStep& step) {
  step_ = step;
  plan_.Make(step);
}

void PagedAttention::Run(const AttentionLayer& layer) {
  RunPhase(layer, plan_.shared_phase());
  RunPhase(layer, plan_.own_phase());
}

void PagedAttention::RunPhase(const AttentionLayer& layer, const AttentionPhase& phase) {
  if (phase.num_long_tiles > 0) RunLongTiles(layer, phase);
  const int num_tiles = static_cast<int>(phase.tiles.size());
  pool_->Run(num_tiles - phase.num_long_tiles, [&](int chunk, int worker) {
    RunTile(layer, phase.tiles[phase.num_long_tiles + chunk], worker);
  });
}

void PagedAttention::RunTile(const AttentionLayer& layer, const Tile& tile, int worker) {
  const Scratch& scratch = scratch_[worker];
  Start(tile, scratch.state);
  for (int i = 0; i < tile.num_splits; ++i) {
    ComputeSplit(layer, tile, tile.first_split + i, worker, scratch.partial);
    Merge(tile, scratch.partial, scratch.state);
  }
  Finish(layer, tile, scratch.state);
}

void PagedAttention::RunLongTiles(const AttentionLayer& layer, const AttentionPhase& phase) {
  const std::vector<int64_t>& starts = phase.split_starts;
  const int64_t num_splits = starts.back();
  const int64_t wave = static_cast<int64_t>(slots_.size());
  for (int64_t begin = 0; begin < num_splits; begin += wave) {
    const int64_t end = std::min(begin + wave, num_splits);
    const auto tile_of = [&](int64_t split) {
      const auto after = std::upper_bound(starts.begin(), starts.end(), split);
      return static_cast<int>(after - starts.begin()) - 1;
    };
    pool_->Run(static_cast<int>(end - begin), [&](int chunk, int worker) {
      const int tile_idx = tile_of(begin + chunk);
      const Tile& tile = phase.tiles[tile_idx];
      const int split = tile.first_split + static_cast<int>(begin + chunk - starts[tile_idx]);
      ComputeSplit(layer, tile, split, worker, slots_[chunk]);
    });
    const int first_tile = tile_of(begin);
    pool_->Run(tile_of(end - 1) + 1 - first_tile,
               [&](int chunk, int) { MergeWave(layer, phase, first_tile + chunk, begin, end); });
  }
}

void PagedAttention::MergeWave(const AttentionLayer& layer, const AttentionPhase& phase,
                               int tile_idx, int64_t begin, int64_t end) {
  const Tile& tile = phase.tiles[tile_idx];
  const AttentionPartial& state = long_states_[tile_idx];
  const int64_t tile_begin = phase.split_starts[tile_idx];
  const int64_t tile_end = phase.split_starts[tile_idx + 1];
  if (begin <= tile_begin) Start(tile, state);
  for (int64_t i = std::max(begin, tile_begin); i < std::min(end, tile_end); ++i) {
    Merge(tile, slots_[i - begin], state);
  }
  if (tile_end <= end) Finish(layer, tile, state);
}

void PagedAttention::FindVisible(const Tile& tile, int split_start, AttentionSplit* split) const {
  int first = kKvSplitTokens;
  int last = 0;
  for (int row = 0; row < tile.num_rows; ++row) {
    const int end = step_.positions[plan_.TokenOf(tile, row)] + 1 - split_start;
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
      const int64_t head = plan_.HeadOf(tile, kv_head, row);
      std::memcpy(
          q + row * padded,
          layer.q + (plan_.TokenOf(tile, row) * int64_t{config_.shape.num_heads} + head) * padded,
          padded * sizeof(uint16_t));
    }
    kernels_.compute_split(split, scratch_[worker].kernel, FromRow(partial, i * tile.num_rows));
  }
}

AttentionPartial PagedAttention::FromRow(const AttentionPartial& partial, int64_t row) const {
  return {
      .m = partial.m + row, .l = partial.l + row, .o = partial.o + row * block_.padded_head_dim};
}

AttentionPartial PagedAttention::StateOf(const Tile& tile, int head,
                                         const AttentionPartial& whole) const {
  if (tile.starts && tile.finishes) return FromRow(whole, head * tile.num_rows);
  const int64_t kv_head = tile.first_head + head;
  return FromRow(shared_states_, kv_head * plan_.max_shared_rows() + tile.first_row);
}

void PagedAttention::Start(const Tile& tile, const AttentionPartial& whole) {
  if (!tile.starts) return;
  for (int i = 0; i < tile.num_heads; ++i) {
    std::fill_n(StateOf(tile, i, whole).l, tile.num_rows, 0.0f);
  }
}

void PagedAttention::Merge(const Tile& tile, const AttentionPartial& partial,
                           const AttentionPartial& whole) {
  for (int i = 0; i < tile.num_heads; ++i) {
    kernels_.merge(FromRow(partial, i * tile.num_rows), tile.num_rows, block_.padded_head_dim,
                   StateOf(tile, i, whole));
  }
}

void PagedAttention::Finish(const AttentionLayer& layer, const Tile& tile,
                            const AttentionPartial& whole) {
  if (!tile.finishes) return;
  for (int i = 0; i < tile.num_heads; ++i) {
    uint16_t* out[kAttentionTileRows];
    for (int row = 0; row < tile.num_rows; ++row) {
      const int head = plan_.HeadOf(tile, tile.first_head + i, row);
      out[row] = layer.out + plan_.TokenOf(tile, row) * layer.out_stride +
                 int64_t{head} * config_.shape.head_dim;
    }
    kernels_.finish(StateOf(tile, i, whole), tile.num_rows, config_.shape.head_dim,
                    block_.padded_head_dim, out);
  }
}

}  // namespace quire
