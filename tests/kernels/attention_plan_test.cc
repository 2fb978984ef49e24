#include "kernels/cpu/attention_plan.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/kernels/allocation_count.h"

namespace quire {
namespace {

constexpr int kBlockSize = 128;  // two blocks make a split
constexpr int kMaxBlocks = 16;

// The last `num_queries` tokens of a context of `num_tokens` are in the step. Blocks are named by
// letters; those after them are the sequence's own.
struct Sequence {
  std::string blocks;
  int num_tokens = 0;
  int num_queries = 1;
};

struct Step {
  std::vector<int32_t> positions;
  std::vector<int32_t> query_starts = {0};
  std::vector<int32_t> block_tables;

  explicit Step(const std::vector<Sequence>& seqs) {
    int32_t next_own = 1000;
    for (const Sequence& s : seqs) {
      for (int i = s.num_tokens - s.num_queries; i < s.num_tokens; ++i) positions.push_back(i);
      query_starts.push_back(static_cast<int32_t>(positions.size()));
      for (size_t i = 0; i < kMaxBlocks; ++i) {
        block_tables.push_back(i < s.blocks.size() ? s.blocks[i] : next_own++);
      }
    }
  }
  AttentionStep view() const { return {positions, query_starts, block_tables, kMaxBlocks}; }
};

// One head of kv by default, so that every tile is of one.
AttentionConfig ConfigOf(int num_heads, int num_kv_heads = 1, int window = 0) {
  return {.shape = {.num_heads = num_heads, .num_kv_heads = num_kv_heads, .head_dim = 64},
          .block_size = kBlockSize,
          .window = window,
          .max_num_tokens = 256,
          .max_num_seqs = 64};
}

// "tokens:first_split-end_split" of each tile, by tokens; of several kv heads "h first-end"
// follows.
std::string TilesOf(const AttentionPlan& plan, const AttentionPhase& phase, int num_kv_heads) {
  std::vector<std::string> tiles;
  for (const AttentionTile& tile : phase.tiles) {
    std::string text;
    int last_token = -1;
    for (int row = 0; row < tile.num_rows; ++row) {
      const int token = plan.TokenOf(tile, row);
      if (token != last_token) absl::StrAppend(&text, row == 0 ? "" : ",", token);
      last_token = token;
    }
    absl::StrAppend(&text, ":", tile.first_split, "-", tile.first_split + tile.num_splits);
    if (num_kv_heads > 1) {
      absl::StrAppend(&text, "h", tile.first_head, "-", tile.first_head + tile.num_heads);
    }
    tiles.push_back(text);
  }
  std::sort(tiles.begin(), tiles.end());
  std::string text;
  for (const std::string& tile : tiles) absl::StrAppend(&text, text.empty() ? "" : " ", tile);
  return text;
}

// Tiles of the shared phase | of the own phase.
std::string PlanOf(const std::vector<Sequence>& seqs, const AttentionConfig& config = ConfigOf(2)) {
  AttentionPlan plan(config, 1);
  const Step step(seqs);
  plan.Make(step.view());
  const int num_kv_heads = config.shape.num_kv_heads;
  return TilesOf(plan, plan.shared_phase(), num_kv_heads) + " | " +
         TilesOf(plan, plan.own_phase(), num_kv_heads);
}

TEST(AttentionPlan, EverySequenceThatSharesNothingHasItsOwnTile) {
  EXPECT_EQ(PlanOf({}), " | ");
  EXPECT_EQ(PlanOf({{"", 1}, {"", 600}}), " | 0:0-1 1:0-3");
}

TEST(AttentionPlan, SequencesThatBeginWithTheSameBlocksReadThemOnce) {
  EXPECT_EQ(PlanOf({{"abcd", 600}, {"", 600}, {"abcd", 520}}), "0,2:0-2 | 0:2-3 1:0-3 2:2-3");
}

TEST(AttentionPlan, OnlyWholeSplitsThatEndBeforeTheTokenAreShared) {
  EXPECT_EQ(PlanOf({{"abc", 600}, {"abc", 600}}), "0,1:0-1 | 0:1-3 1:1-3");
  EXPECT_EQ(PlanOf({{"a", 600}, {"a", 600}}), " | 0:0-3 1:0-3");
  EXPECT_EQ(PlanOf({{"abcd", 512}, {"abcd", 513}}), "0,1:0-1 | 0:1-2 1:1-3");
  EXPECT_EQ(PlanOf({{"ab", 256}, {"ab", 256}}), " | 0:0-1 1:0-1");
}

TEST(AttentionPlan, AnEqualBlockAfterADifferentOneIsNotShared) {
  EXPECT_EQ(PlanOf({{"abcd", 600}, {"xbcd", 600}}), " | 0:0-3 1:0-3");
}

TEST(AttentionPlan, OfNestedPrefixesTheOneThatSavesMostIsShared) {
  // Two share three splits, the third one of them: one more read saved would cost two.
  EXPECT_EQ(PlanOf({{"abcdef", 800}, {"abcdef", 800}, {"abxy", 800}}),
            "0,1:0-3 | 0:3-4 1:3-4 2:0-4");
  EXPECT_EQ(PlanOf({{"abcdef", 800}, {"abxy", 800}, {"abcdef", 800}}),
            "0,2:0-3 | 0:3-4 1:0-4 2:3-4");
  EXPECT_EQ(PlanOf({{"acab", 800}, {"acdefg", 800}, {"acdefg", 800}}),
            "1,2:0-3 | 0:0-4 1:3-4 2:3-4");
  // Two share three splits, all of them two.
  EXPECT_EQ(PlanOf({{"abcdef", 800}, {"abcdef", 800}, {"abcdxy", 800}}),
            "0,1,2:0-2 | 0:2-4 1:2-4 2:2-4");
  // Two pairs and a single one.
  EXPECT_EQ(PlanOf({{"abcd", 600}, {"pqrs", 600}, {"zz", 600}, {"abcd", 600}, {"pqrs", 600}}),
            "0,3:0-2 1,4:0-2 | 0:2-3 1:2-3 2:0-3 3:2-3 4:2-3");
}

TEST(AttentionPlan, ManySequencesFillSeveralTiles) {
  // A tile has the rows of three tokens; the next one begins within a token.
  const std::vector<Sequence> four(4, {"ab", 300});
  EXPECT_EQ(PlanOf(four, ConfigOf(10)), "0,1,2,3:0-1 3:0-1 | 0:1-2 1:1-2 2:1-2 3:1-2");
  // Rows of few tokens are joined by those of other kv heads.
  EXPECT_EQ(PlanOf({{"ab", 300}, {"ab", 300}}, ConfigOf(9, 3)),
            "0,1:0-1h0-3 | 0:1-2h0-3 1:1-2h0-3");
}

TEST(AttentionPlan, NothingIsSharedWhereOneTokenFillsMoreThanHalfATile) {
  EXPECT_EQ(PlanOf({{"ab", 300}, {"ab", 300}}, ConfigOf(16)), "0,1:0-1 | 0:1-2 1:1-2");
  EXPECT_EQ(PlanOf({{"ab", 300}, {"ab", 300}}, ConfigOf(17)), " | 0:0-2 1:0-2");
}

TEST(AttentionPlan, ChunksShareNothing) {
  EXPECT_EQ(PlanOf({{"ab", 300, 3}, {"ab", 300}, {"ab", 300}, {"ab", 290, 2}}),
            "3,4:0-1 | 0,1,2:0-2 3:1-2 4:1-2 5,6:0-2");
}

TEST(AttentionPlan, SequencesShareWhileTheirWindowReachesTheFirstToken) {
  EXPECT_EQ(PlanOf({{"ab", 300}, {"ab", 300}, {"ab", 301}}, ConfigOf(2, 1, 300)),
            "0,1:0-1 | 0:1-2 1:1-2 2:0-2");
  EXPECT_EQ(PlanOf({{"abcd", 800}, {"abcd", 800}}, ConfigOf(2, 1, 300)), " | 0:1-4 1:1-4");
}

TEST(AttentionPlan, TheTilesOfARowStartAndFinishOnce) {
  AttentionPlan plan(ConfigOf(2), 2);
  const Step step({{"ab", 300}, {"ab", 300}, {"", 300}});
  plan.Make(step.view());
  for (const AttentionTile& tile : plan.shared_phase().tiles) {
    EXPECT_TRUE(tile.starts);
    EXPECT_FALSE(tile.finishes);
  }
  for (const AttentionTile& tile : plan.own_phase().tiles) {
    EXPECT_EQ(tile.starts, tile.first_split == 0);
    EXPECT_TRUE(tile.finishes);
    if (!tile.starts) {
      EXPECT_LE(tile.first_row + tile.num_rows, plan.max_shared_rows());
    }
  }
}

TEST(AttentionPlan, MakingOneAllocatesNothing) {
  const std::vector<Sequence> most(64, {"abcdef", 800});
  std::vector<Sequence> pairs;
  for (char c = ' '; pairs.size() < 64; ++c) pairs.insert(pairs.end(), 2, {{c, c}, 300});
  const Step steps[] = {Step(most), Step(pairs), Step({{"", 300, 256}})};
  for (const auto& [num_heads, num_kv_heads] : {std::pair{1, 1}, {12, 1}, {9, 3}, {24, 8}}) {
    for (const int num_threads : {1, 3}) {
      AttentionPlan plan(ConfigOf(num_heads, num_kv_heads), num_threads);
      const int64_t before = NumAllocations();
      for (const Step& step : steps) plan.Make(step.view());
      EXPECT_EQ(NumAllocations(), before) << num_heads << "/" << num_kv_heads << " heads";
    }
  }
}

}  // namespace
}  // namespace quire
