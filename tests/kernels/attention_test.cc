#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/kv_block.h"
#include "kernels/cpu/reference/attention.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/amx_emulated.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/bf16_variants.h"

namespace quire {
namespace {

constexpr uint16_t kBf16Nan = 0x7fc0;

// How the KV of a problem lies in memory, and how the step is cut.
struct Layout {
  Bf16Variant variant;
  int block_size = 16;
  int num_threads = 1;
  bool shuffled = true;
  uint32_t garbage_seed = 1;
  int rows_per_step = 0;  // 0: all queries of a sequence in one step
};

constexpr int kNumLayers = 2;  // the problem is in layer 1

// KV memory of all sequences. Blocks that nobody has, and all other layers, are NaN.
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
      const int num_tokens = problem.seqs[seq].num_tokens;
      const int used = (num_tokens + layout.block_size - 1) / layout.block_size;
      for (int i = 0; i < used; ++i) {
        tables_[seq * max_blocks_ + i] = ids.back();
        ids.pop_back();
      }
      Fill(problem, static_cast<int>(seq), random);
    }
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

  const Layout layout_;
  KvBlockShape shape_;
  int64_t block_elems_ = 0;
  int max_blocks_ = 0;
  std::vector<uint16_t> memory_;
  std::vector<int32_t> tables_;  // [num_seqs, max_blocks]
};

const AttentionKernels& KernelsOf(const Bf16Variant& variant) {
  return variant.emulated ? isa_amx_emulated::kBf16x32AttentionKernels
                          : AttentionKernelsFor(variant.isa, variant.mode);
}

// Runs all queries; returns bf16 [sum of num_queries, num_heads * head_dim].
std::vector<uint16_t> RunPaged(const Problem& problem, const Layout& layout) {
  const Model& model = problem.model;
  const int padded = PaddedHeadDim(model.head_dim);
  const PagedMemory memory(problem, layout);
  const int num_seqs = static_cast<int>(problem.seqs.size());
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
  config.max_num_seqs = num_seqs;
  PagedAttention attention(config, KernelsOf(layout.variant), &pool);

  const int64_t out_stride = model.num_heads * model.head_dim;
  std::vector<uint16_t> result(total_queries * out_stride, kBf16Nan);
  for (int step = 0; step < max_queries; step += step_rows) {
    std::vector<int32_t> positions;
    std::vector<int32_t> query_starts = {0};
    std::vector<uint16_t> q;
    std::vector<int64_t> result_rows;
    int64_t first_result = 0;
    for (int seq = 0; seq < num_seqs; ++seq) {
      const Sequence& s = problem.seqs[seq];
      for (int i = step; i < std::min(step + step_rows, s.num_queries); ++i) {
        const int token = s.num_tokens - s.num_queries + i;
        positions.push_back(token);
        result_rows.push_back(first_result + i);
        for (int head = 0; head < model.num_heads; ++head) {
          const uint16_t* row = RowOf(problem, seq, token, head).q;
          q.insert(q.end(), row, row + model.head_dim);
          q.insert(q.end(), padded - model.head_dim, 0);
        }
      }
      query_starts.push_back(static_cast<int32_t>(positions.size()));
      first_result += s.num_queries;
    }
    std::vector<uint16_t> out(positions.size() * out_stride, kBf16Nan);
    attention.Plan({.positions = positions,
                    .query_starts = query_starts,
                    .block_tables = memory.tables(),
                    .max_blocks = memory.max_blocks()});
    attention.Run({.q = q.data(),
                   .kv = memory.data(),
                   .layer_in_group = 1,
                   .out = out.data(),
                   .out_stride = out_stride});
    for (size_t i = 0; i < result_rows.size(); ++i) {
      std::copy_n(out.begin() + i * out_stride, out_stride,
                  result.begin() + result_rows[i] * out_stride);
    }
  }
  return result;
}

// Elements whose bits are not those of the definition.
int NumDifferences(const Problem& problem, const Layout& layout) {
  const std::vector<uint16_t> result = RunPaged(problem, layout);
  int count = 0;
  for (size_t i = 0; i < result.size(); ++i) count += result[i] != problem.expected[i];
  return count;
}

class AttentionOn : public Bf16VariantTest {
 protected:
  Layout layout() const {
    Layout layout;
    layout.variant = GetParam();
    return layout;
  }
  // A model in the test's mode.
  static Model InMode(Model model) {
    model.mode = GetParam().mode;
    return model;
  }
};

constexpr Model kModels[] = {
    {.num_heads = 4, .num_kv_heads = 4, .head_dim = 64},
    {.num_heads = 6, .num_kv_heads = 2, .head_dim = 80},
    {.num_heads = 14, .num_kv_heads = 2, .head_dim = 96},
    {.num_heads = 5, .num_kv_heads = 1, .head_dim = 128},
    {.num_heads = 32, .num_kv_heads = 1, .head_dim = 64},
};

TEST_P(AttentionOn, EveryContextLengthEqualsTheDefinition) {
  std::vector<Sequence> seqs;
  for (int num_tokens : {1, 2, 15, 16, 17, 255, 256, 257, 600}) seqs.push_back({num_tokens, 1});
  for (const Model& model : kModels) {
    const Problem problem = MakeProblem(InMode(model), seqs);
    EXPECT_EQ(NumDifferences(problem, layout()), 0)
        << model.num_heads << "/" << model.num_kv_heads << " heads of " << model.head_dim;
  }
}

TEST_P(AttentionOn, PromptChunksEqualTheDefinitionHoweverTheyAreCut) {
  for (const Model& model : kModels) {
    const Problem problem = MakeProblem(InMode(model), {{40, 40}, {270, 30}, {5, 5}, {513, 3}});
    for (int rows_per_step : {0, 1, 7}) {
      Layout l = layout();
      l.rows_per_step = rows_per_step;
      EXPECT_EQ(NumDifferences(problem, l), 0)
          << model.head_dim << " dims, " << rows_per_step << " rows";
    }
  }
}

TEST_P(AttentionOn, BlockSizesIdsAndGarbageDoNotChangeBits) {
  for (Values values : {Values::kUsual, Values::kTiny}) {
    const Problem problem =
        MakeProblem(InMode(kModels[1]), {{300, 20}, {33, 33}, {257, 1}}, values);
    for (int block_size : {16, 32, 64, 128, 256}) {
      for (uint32_t garbage_seed : {1, 2}) {
        Layout l = layout();
        l.block_size = block_size;
        l.garbage_seed = garbage_seed;
        l.shuffled = garbage_seed == 2;
        EXPECT_EQ(NumDifferences(problem, l), 0) << block_size << " slots";
      }
    }
  }
}

TEST_P(AttentionOn, WindowsEqualTheDefinition) {
  for (int window : {1, 2, 16, 100, 256, 300}) {
    Model model = kModels[1];
    model.window = window;
    const Problem problem = MakeProblem(InMode(model), {{600, 40}, {20, 20}, {257, 1}, {400, 1}});
    for (int num_threads : {1, 2}) {
      Layout l = layout();
      l.num_threads = num_threads;
      EXPECT_EQ(NumDifferences(problem, l), 0) << "window " << window;
    }
  }
}

TEST_P(AttentionOn, ThreadsDoNotChangeBits) {
  // One long sequence, whose splits are spread over the workers in several waves; then a mix.
  const Model few_heads = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 64};
  const Problem single = MakeProblem(InMode(few_heads), {{9000, 1}});
  const Problem mixed = MakeProblem(InMode(kModels[1]), {{3000, 1}, {700, 1}, {64, 30}, {2000, 1}});
  for (int num_threads : {1, 2, 3}) {
    Layout l = layout();
    l.num_threads = num_threads;
    EXPECT_EQ(NumDifferences(single, l), 0) << num_threads << " threads";
    EXPECT_EQ(NumDifferences(mixed, l), 0) << num_threads << " threads";
  }
}

QUIRE_FOR_EACH_BF16_VARIANT(AttentionOn);

// Softmax attention as in a textbook, in double.
std::vector<double> TextbookAttention(const reference::AttentionRow& row) {
  const int begin = row.window == 0 ? 0 : std::max(0, row.position + 1 - row.window);
  std::vector<double> weights;
  double sum = 0;
  for (int t = begin; t <= row.position; ++t) {
    double dot = 0;
    for (int i = 0; i < row.head_dim; ++i) {
      dot += static_cast<double>(FromBf16(row.q[i])) * FromBf16(row.k[t * row.token_stride + i]);
    }
    weights.push_back(std::exp(dot / std::sqrt(row.head_dim) - 60));
    sum += weights.back();
  }
  std::vector<double> out(row.head_dim);
  for (int t = begin; t <= row.position; ++t) {
    for (int i = 0; i < row.head_dim; ++i) {
      out[i] += weights[t - begin] / sum * FromBf16(row.v[t * row.token_stride + i]);
    }
  }
  return out;
}

TEST(AttentionDefinition, IsCloseToTextbookAttention) {
  for (const auto& [window, mode] : {std::pair{0, NumericsMode::kBf16x2},
                                     {100, NumericsMode::kBf16x2},
                                     {100, NumericsMode::kBf16x32}}) {
    Model model = kModels[1];
    model.window = window;
    model.mode = mode;
    const Problem problem = MakeProblem(model, {{600, 3}, {257, 2}, {17, 17}, {1, 1}});
    size_t next = 0;
    for (size_t seq = 0; seq < problem.seqs.size(); ++seq) {
      const Sequence& s = problem.seqs[seq];
      for (int token = s.num_tokens - s.num_queries; token < s.num_tokens; ++token) {
        for (int head = 0; head < model.num_heads; ++head) {
          const auto truth = TextbookAttention(RowOf(problem, static_cast<int>(seq), token, head));
          for (double x : truth) {
            // Weights and the result are rounded to 8 bits, values are about 1.
            ASSERT_NEAR(FromBf16(problem.expected[next++]), x, 0.02) << seq << " " << token;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
