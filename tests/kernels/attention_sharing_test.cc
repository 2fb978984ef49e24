#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/attention.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/kernel_variants.h"
#include "tests/kernels/paged_attention_run.h"

// Sequences whose block tables begin with the same blocks; attention_plan_test.cc says what is
// computed once for them.

namespace quire {
namespace {

class SharedAttentionOn : public KernelVariantTest {
 protected:
  static Problem InMode(Model model, const std::vector<Sequence>& seqs) {
    model.mode = GetParam().mode;
    return MakeProblem(model, seqs);
  }

  // Nothing is proven by sequences that in truth share nothing.
  static void ExpectSharedAndEqual(const Problem& problem, Layout layout) {
    layout.variant = GetParam();
    const PagedResult result = RunPaged(problem, layout);
    EXPECT_GT(result.num_shared_tiles, 0U);
    EXPECT_EQ(NumDifferences(problem, result), 0)
        << layout.block_size << " slots, " << layout.num_threads << " threads";
  }
};

constexpr Model kSmall = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 80};

// Chunks of prompts, sequences that share and some that do not, one that shares less than a split.
const std::vector<Sequence> kMixed = {
    {700, 1},          {40, 40},         {600, 1, 0, 520}, {300, 1}, {531, 1, 0, 530},
    {600, 30, 0, 560}, {290, 1, 3, 256}, {900, 1, 0, 512}, {270, 1}, {268, 1, 8, 250}};

TEST_P(SharedAttentionOn, OneTokenEachEqualsTheDefinition) {
  // From a part of a tile to many tiles.
  for (const Model& model : {Model{.num_heads = 4, .num_kv_heads = 4, .head_dim = 64},
                             Model{.num_heads = 14, .num_kv_heads = 2, .head_dim = 96},
                             Model{.num_heads = 12, .num_kv_heads = 1, .head_dim = 128}}) {
    for (const int num_seqs : {2, 9}) {
      std::vector<Sequence> seqs = {{600, 1}};
      while (seqs.size() < static_cast<size_t>(num_seqs)) {
        seqs.push_back({513 + 7 * static_cast<int>(seqs.size()), 1, 0, 512});
      }
      ExpectSharedAndEqual(InMode(model, seqs), {});
    }
  }
}

TEST_P(SharedAttentionOn, MixedStepsEqualTheDefinition) {
  const Problem problem = InMode(kSmall, kMixed);
  const int block_sizes[] = {16, 64, 256};
  for (int i = 0; i < 3; ++i) {
    for (const int num_threads : {1, 2, 3}) {
      // Plain C++ takes its time: each number once.
      if (IsPlain(GetParam()) && num_threads != i + 1) continue;
      ExpectSharedAndEqual(problem, {.block_size = block_sizes[i], .num_threads = num_threads});
    }
  }
  // Chunks of one token are as good as generated ones.
  ExpectSharedAndEqual(problem, {.rows_per_step = 1});
}

TEST_P(SharedAttentionOn, NestedPrefixesEqualTheDefinition) {
  const Problem problem =
      InMode(kSmall, {{1300, 1}, {1100, 1, 0, 1024}, {700, 1, 0, 512}, {1290, 1, 1, 1040}});
  for (const uint32_t seed : {1, 2, 3}) ExpectSharedAndEqual(problem, {.garbage_seed = seed});
}

TEST_P(SharedAttentionOn, LongPrefixesAreSpreadOverAllThreadsInOrder) {
  // Some 20 splits of two tiles: several waves of both phases.
  const Problem problem = InMode({.num_heads = 2, .num_kv_heads = 1, .head_dim = 64},
                                 {{9000, 1}, {5130, 1, 0, 5120}, {5300, 1, 0, 5120}});
  for (const int num_threads : {1, 2, 3}) {
    ExpectSharedAndEqual(problem, {.block_size = 256, .num_threads = num_threads});
  }
}

TEST_P(SharedAttentionOn, WindowsEqualTheDefinition) {
  Model model = kSmall;
  for (const int window : {1, 100, 600, 601, 1000}) {
    if (IsPlain(GetParam()) && window == 1000) continue;
    model.window = window;
    const Problem problem = InMode(model, kMixed);
    Layout layout = {.num_threads = 2};
    layout.variant = GetParam();
    EXPECT_EQ(NumDifferences(problem, layout), 0) << "window " << window;
    // Those that still see all share, beside one that does not.
    if (window >= 600) ExpectSharedAndEqual(problem, {});
  }
}

TEST_P(SharedAttentionOn, BlocksOfOneSequenceReachNoOther) {
  const Problem problem = InMode(kSmall, {{700, 1}, {530, 1, 0, 512}, {600, 1, 0, 520}});
  const size_t row_elems = kSmall.num_heads * kSmall.head_dim;
  const PagedResult whole = RunPaged(problem, {.variant = GetParam()});
  for (int seq = 0; seq < 3; ++seq) {
    const PagedResult poisoned = RunPaged(problem, {.variant = GetParam(), .poisoned_seq = seq});
    EXPECT_GT(poisoned.num_shared_tiles, 0U);
    for (size_t i = 0; i < whole.out.size(); ++i) {
      const bool is_its_own = i / row_elems == static_cast<size_t>(seq);
      ASSERT_EQ(poisoned.out[i] == whole.out[i], !is_its_own) << "element " << i;
    }
  }
}

QUIRE_FOR_EACH_VARIANT_OF(SharedAttentionOn, NumericsMode::kBf16x2, NumericsMode::kBf16x32);

}  // namespace
}  // namespace quire
