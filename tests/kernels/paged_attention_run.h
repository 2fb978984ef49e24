#ifndef QUIRE_TESTS_KERNELS_PAGED_ATTENTION_RUN_H_
#define QUIRE_TESTS_KERNELS_PAGED_ATTENTION_RUN_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/kv_block.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/amx_emulated.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/kernel_variants.h"

// What PagedAttention makes of a problem of attention_problem.h.

namespace quire {

inline constexpr uint16_t kBf16Nan = 0x7fc0;

// How the KV of a problem lies in memory, and how the step is cut.
struct Layout {
  KernelVariant variant = {};
  int block_size = 16;
  int num_threads = 1;
  bool shuffled = true;
  uint32_t garbage_seed = 1;
  int rows_per_step = 0;  // 0: all queries of a sequence in one step
  int poisoned_seq = -1;  // blocks that only this one has are NaN
};

inline constexpr int kNumLayers = 2;  // the problem is in layer 1

// KV memory of all sequences. Blocks that nobody sees, and all other layers, are NaN.
class PagedMemory {
 public:
  PagedMemory(const Problem& problem, const Layout& layout) : layout_(layout) {
    const Model& model = problem.model;
    shape_ = {.num_kv_heads = model.num_kv_heads,
              .block_size = layout.block_size,
              .padded_head_dim = PaddedHeadDim(model.head_dim)};
    block_elems_ = kNumLayers * KvLayerElems(shape_) + 32;
    int num_blocks = 3;
    for (const Sequence& s : problem.seqs) {
      max_blocks_ = std::max(max_blocks_, s.num_tokens / layout.block_size + 1);
      num_blocks += s.num_tokens / layout.block_size + 1;
    }
    std::vector<int32_t> ids(num_blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::mt19937 random(layout.garbage_seed);
    if (layout.shuffled) std::shuffle(ids.begin(), ids.end(), random);
    memory_.assign(num_blocks * block_elems_, kBf16Nan);
    tables_.assign(problem.seqs.size() * max_blocks_, -1);
    for (size_t seq = 0; seq < problem.seqs.size(); ++seq) {
      const Sequence& s = problem.seqs[seq];
      int32_t* const table = &tables_[seq * max_blocks_];
      const int used = (s.num_tokens + layout.block_size - 1) / layout.block_size;
      const int shared = s.num_shared / layout.block_size;
      std::copy_n(&tables_[s.shared_with * max_blocks_], shared, table);
      for (int i = shared; i < used; ++i) {
        table[i] = ids.back();
        ids.pop_back();
      }
      Fill(problem, static_cast<int>(seq), random);
    }
    if (layout.poisoned_seq >= 0) Poison(layout.poisoned_seq);
    HideBlocks(problem);
  }

  const std::byte* data() const { return reinterpret_cast<const std::byte*>(memory_.data()); }
  int64_t block_bytes() const { return block_elems_ * 2; }
  const std::vector<int32_t>& tables() const { return tables_; }
  int max_blocks() const { return max_blocks_; }

 private:
  // Slots past the end get NaN as K and finite garbage as V.
  void Fill(const Problem& problem, int seq, std::mt19937& random) {
    const Model& model = problem.model;
    const int num_tokens = problem.seqs[seq].num_tokens;
    const int num_slots =
        (num_tokens + layout_.block_size - 1) / layout_.block_size * layout_.block_size;
    for (int slot = 0; slot < num_slots; ++slot) {
      const int64_t block_id = tables_[seq * max_blocks_ + slot / layout_.block_size];
      const int in_block = slot % layout_.block_size;
      for (int head = 0; head < model.num_kv_heads; ++head) {
        uint16_t* k = &memory_[block_id * block_elems_ + KvKeyBase(shape_, 1, head)];
        uint16_t* v = &memory_[block_id * block_elems_ + KvValueBase(shape_, 1, head)];
        for (int dim = 0; dim < shape_.padded_head_dim; ++dim) {
          uint16_t& k_elem = k[KvKeyElem(shape_, in_block, dim)];
          uint16_t& v_elem = v[KvValueElem(shape_, in_block, dim)];
          const size_t dense =
              (static_cast<size_t>(slot) * model.num_kv_heads + head) * model.head_dim + dim;
          if (slot >= num_tokens) {
            k_elem = kBf16Nan;
            v_elem = RneBf16(static_cast<float>(static_cast<int>(random() % 2001) - 1000));
          } else if (dim >= model.head_dim) {
            k_elem = 0;
            v_elem = 0;
          } else {
            k_elem = problem.k[seq][dense];
            v_elem = problem.v[seq][dense];
          }
        }
      }
    }
  }

  void Poison(int seq) {
    for (int i = 0; i < max_blocks_; ++i) {
      const int32_t block_id = tables_[seq * max_blocks_ + i];
      if (block_id < 0 || std::count(tables_.begin(), tables_.end(), block_id) != 1) continue;
      std::fill_n(&memory_[block_id * block_elems_], block_elems_, kBf16Nan);
    }
  }

  // Blocks that the window of the first query has left are no longer in the table.
  void HideBlocks(const Problem& problem) {
    if (problem.model.window == 0) return;
    for (size_t seq = 0; seq < problem.seqs.size(); ++seq) {
      const Sequence& s = problem.seqs[seq];
      const int begin = std::max(0, s.num_tokens - s.num_queries + 1 - problem.model.window);
      std::fill_n(&tables_[seq * max_blocks_], begin / layout_.block_size, -1);
    }
  }

  const Layout layout_;
  KvBlockShape shape_;
  int64_t block_elems_ = 0;
  int max_blocks_ = 0;
  std::vector<uint16_t> memory_;
  std::vector<int32_t> tables_;  // [num_seqs, max_blocks]
};

inline const AttentionKernels& KernelsOf(const KernelVariant& variant) {
  return variant.emulated ? isa_amx_emulated::kBf16x32AttentionKernels
                          : AttentionKernelsFor(variant.isa, variant.mode);
}

// Queries [begin, begin + num_rows) of each sequence, so far as it has them.
struct StepQueries {
  std::vector<int32_t> positions;
  std::vector<int32_t> query_starts = {0};
  std::vector<uint16_t> q;           // bf16 [tokens, num_heads, padded_head_dim]
  std::vector<int64_t> result_rows;  // where among all queries each one is

  StepQueries(const Problem& problem, int begin, int num_rows) {
    const Model& model = problem.model;
    const int num_padding = PaddedHeadDim(model.head_dim) - model.head_dim;
    int64_t first_result = 0;
    for (size_t seq = 0; seq < problem.seqs.size(); ++seq) {
      const Sequence& s = problem.seqs[seq];
      for (int i = begin; i < std::min(begin + num_rows, s.num_queries); ++i) {
        const int token = s.num_tokens - s.num_queries + i;
        positions.push_back(token);
        result_rows.push_back(first_result + i);
        for (int head = 0; head < model.num_heads; ++head) {
          const uint16_t* row = RowOf(problem, static_cast<int>(seq), token, head).q;
          q.insert(q.end(), row, row + model.head_dim);
          q.insert(q.end(), num_padding, 0);
        }
      }
      query_starts.push_back(static_cast<int32_t>(positions.size()));
      first_result += s.num_queries;
    }
  }
};

struct PagedResult {
  std::vector<uint16_t> out;    // bf16 [sum of num_queries, num_heads * head_dim]
  size_t num_shared_tiles = 0;  // that the plans of all steps had
};

// Runs all queries.
inline PagedResult RunPaged(const Problem& problem, const Layout& layout) {
  const Model& model = problem.model;
  const PagedMemory memory(problem, layout);
  int max_queries = 0;
  int total_queries = 0;
  for (const Sequence& s : problem.seqs) {
    max_queries = std::max(max_queries, s.num_queries);
    total_queries += s.num_queries;
  }
  const int step_rows = layout.rows_per_step == 0 ? max_queries : layout.rows_per_step;

  ThreadPool pool(layout.num_threads);
  PagedAttention::Config config;
  config.shape = {.num_heads = model.num_heads,
                  .num_kv_heads = model.num_kv_heads,
                  .head_dim = model.head_dim,
                  .scale = 1.0f / std::sqrt(static_cast<float>(model.head_dim))};
  config.block_size = layout.block_size;
  config.block_bytes = memory.block_bytes();
  config.window = model.window;
  config.max_num_tokens = total_queries;
  config.max_num_seqs = static_cast<int>(problem.seqs.size());
  PagedAttention attention(config, KernelsOf(layout.variant), &pool);
  AttentionPlan plan(config, layout.num_threads);

  const int64_t out_stride = model.num_heads * model.head_dim;
  PagedResult result;
  result.out.assign(total_queries * out_stride, kBf16Nan);
  for (int begin = 0; begin < max_queries; begin += step_rows) {
    const StepQueries queries(problem, begin, step_rows);
    std::vector<uint16_t> out(queries.positions.size() * out_stride, kBf16Nan);
    const AttentionStep step = {.positions = queries.positions,
                                .query_starts = queries.query_starts,
                                .block_tables = memory.tables(),
                                .max_blocks = memory.max_blocks()};
    plan.Make(step);
    result.num_shared_tiles += plan.shared_phase().tiles.size();
    attention.Plan(step);
    attention.Run({.q = queries.q.data(),
                   .kv = memory.data(),
                   .layer_in_group = 1,
                   .out = out.data(),
                   .out_stride = out_stride});
    for (size_t i = 0; i < queries.result_rows.size(); ++i) {
      std::copy_n(out.begin() + i * out_stride, out_stride,
                  result.out.begin() + queries.result_rows[i] * out_stride);
    }
  }
  return result;
}

// Elements whose bits are not those of the definition.
inline int NumDifferences(const Problem& problem, const PagedResult& result) {
  int count = 0;
  for (size_t i = 0; i < result.out.size(); ++i) count += result.out[i] != problem.expected[i];
  return count;
}

inline int NumDifferences(const Problem& problem, const Layout& layout) {
  return NumDifferences(problem, RunPaged(problem, layout));
}

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_PAGED_ATTENTION_RUN_H_
