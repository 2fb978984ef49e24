#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/attention.h"
#include "kernels/numerics_mode.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/kernel_variants.h"
#include "tests/kernels/paged_attention_run.h"

namespace quire {
namespace {

class AttentionOn : public KernelVariantTest {
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

QUIRE_FOR_EACH_VARIANT_OF(AttentionOn, NumericsMode::kBf16x2, NumericsMode::kBf16x32);

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
