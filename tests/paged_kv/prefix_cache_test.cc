#include "paged_kv/prefix_cache.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "paged_kv/eviction_lru.h"

namespace quire {
namespace {

using Tokens = std::vector<int32_t>;

// A pool of 16 blocks of 4 tokens and a cache on it; sequences are block tables.
class PrefixCacheTest : public testing::Test {
 protected:
  void Make(std::vector<int32_t> windows, int32_t hash_bits = 64) {
    windows_ = std::move(windows);
    pool_ = std::make_unique<BlockPool>(16);
    pool_->SetTouched(16);
    cache_ = std::make_unique<PrefixCache>(
        PrefixCacheConfig{.block_size = 4, .group_windows = windows_, .hash_bits = hash_bits},
        pool_.get(), std::make_unique<LruEviction>(16));
  }
  ~PrefixCacheTest() override {
    if (cache_ != nullptr) cache_->CheckInvariants();
  }

  static Tokens Count(int32_t first, int32_t length) {
    Tokens tokens(length);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }

  // Publishes all full blocks of `tokens`, held by `table`.
  void Store(const Tokens& tokens, BlockTable* table, const std::string& salt = "") {
    NodeRef parent = cache_->Root(salt);
    for (size_t begin = 0; begin + 4 <= tokens.size(); begin += 4) {
      std::vector<BlockId> blocks;
      ASSERT_TRUE(pool_->Take(static_cast<int32_t>(windows_.size()), &blocks));
      table->Append(blocks);
      parent = cache_->Publish(parent, absl::MakeConstSpan(tokens).subspan(begin, 4), blocks);
    }
    cache_->CheckInvariants();
  }
  void StoreAndDrop(const Tokens& tokens, const std::string& salt = "") {
    BlockTable table(static_cast<int32_t>(windows_.size()));
    Store(tokens, &table, salt);
    table.DropAll(0, pool_.get());
    cache_->CheckInvariants();
  }
  PrefixMatch Match(const Tokens& tokens, const std::string& salt = "") {
    return cache_->Match(salt, tokens, static_cast<int32_t>(tokens.size()));
  }

  std::vector<int32_t> windows_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<PrefixCache> cache_;
};

TEST_F(PrefixCacheTest, MatchIsTheLongestRunOfFullBlocks) {
  Make({0});
  StoreAndDrop(Count(0, 12));
  EXPECT_EQ(Match(Count(0, 14)).num_tokens, 12);
  EXPECT_EQ(Match(Count(0, 11)).num_tokens, 8);
  EXPECT_EQ(Match(Count(0, 3)).num_tokens, 0);
  EXPECT_EQ(Match(Count(1, 12)).num_tokens, 0);
}

TEST_F(PrefixCacheTest, SameBlockAfterAnotherPrefixIsAnotherNode) {
  Make({0});
  StoreAndDrop({1, 1, 1, 1, 9, 9, 9, 9});
  EXPECT_EQ(Match({2, 2, 2, 2, 9, 9, 9, 9}).num_tokens, 0);
  EXPECT_EQ(Match({9, 9, 9, 9}).num_tokens, 0);
}

TEST_F(PrefixCacheTest, CollidingHashesAreToldApartByTokens) {
  Make({0}, /*hash_bits=*/0);
  StoreAndDrop({1, 1, 1, 1, 2, 2, 2, 2});
  StoreAndDrop({3, 3, 3, 3, 2, 2, 2, 2});
  EXPECT_EQ(Match({1, 1, 1, 1, 2, 2, 2, 2, 5}).num_tokens, 8);
  EXPECT_EQ(Match({3, 3, 3, 3, 2, 2, 2, 2, 5}).num_tokens, 8);
  EXPECT_EQ(Match({2, 2, 2, 2, 5}).num_tokens, 0);
  ASSERT_TRUE(cache_->MakeFree(16));
  cache_->CheckInvariants();
}

TEST_F(PrefixCacheTest, SaltsShareNothing) {
  Make({0});
  StoreAndDrop(Count(0, 8), "one");
  EXPECT_EQ(Match(Count(0, 9), "one").num_tokens, 8);
  EXPECT_EQ(Match(Count(0, 9), "two").num_tokens, 0);
  EXPECT_EQ(Match(Count(0, 9)).num_tokens, 0);
}

TEST_F(PrefixCacheTest, HoldTakesBlocksBackFromIdle) {
  Make({0});
  StoreAndDrop(Count(0, 12));
  EXPECT_EQ(pool_->num_idle(), 3);
  BlockTable table(1);
  const PrefixMatch match = Match(Count(0, 9));
  cache_->Hold(match, &table);
  EXPECT_EQ(pool_->num_held(), 2);
  EXPECT_EQ(pool_->num_idle(), 1);
  EXPECT_TRUE(cache_->MakeFree(14));
  EXPECT_FALSE(cache_->MakeFree(15)) << "held blocks stay";
  EXPECT_EQ(Match(Count(0, 13)).num_tokens, 8);
  table.DropAll(0, pool_.get());
}

TEST_F(PrefixCacheTest, FirstPublishedWins) {
  Make({0});
  BlockTable first(1);
  BlockTable second(1);
  Store(Count(0, 4), &first);
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool_->Take(1, &blocks));
  EXPECT_TRUE(cache_->Publish(cache_->Root(""), Count(0, 4), blocks).is_none());
  pool_->Drop(blocks[0], 0);
  EXPECT_EQ(pool_->num_free(), 15) << "the second stays private and is free at once";
  first.DropAll(0, pool_.get());
}

TEST_F(PrefixCacheTest, LeavesGoFirstAndTheLeastRecentlyUsedOfThem) {
  Make({0});
  StoreAndDrop(Count(0, 12));
  StoreAndDrop(Count(100, 12));
  BlockTable table(1);
  cache_->Hold(Match(Count(0, 13)), &table);
  table.DropAll(0, pool_.get());
  ASSERT_TRUE(cache_->MakeFree(12));
  EXPECT_EQ(Match(Count(0, 13)).num_tokens, 12);
  EXPECT_EQ(Match(Count(100, 13)).num_tokens, 4);
  ASSERT_TRUE(cache_->MakeFree(14));
  EXPECT_EQ(Match(Count(0, 13)).num_tokens, 8);
  EXPECT_EQ(Match(Count(100, 13)).num_tokens, 0);
}

TEST_F(PrefixCacheTest, PendingNodeIsReportedUntilItIsKeptOrErased) {
  Make({0});
  const NodeRef node = cache_->AddPending(cache_->Root(""), Count(0, 4), 7);
  EXPECT_EQ(Match(Count(0, 5)).num_tokens, 0);
  EXPECT_EQ(Match(Count(0, 5)).next_pending.index, node.index);
  EXPECT_EQ(Match(Count(0, 3)).next_pending.index, -1) << "not a full block of it";
  EXPECT_EQ(cache_->OwnerOf(node), 7u);
  cache_->ErasePending(node);
  EXPECT_FALSE(cache_->IsPending(node));
  EXPECT_EQ(Match(Count(0, 5)).next_pending.index, -1);
}

TEST_F(PrefixCacheTest, KeptPromiseIsValid) {
  Make({0});
  const NodeRef node = cache_->AddPending(cache_->Root(""), Count(0, 4), 7);
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool_->Take(1, &blocks));
  cache_->Fulfil(node, blocks);
  EXPECT_FALSE(cache_->IsPending(node));
  EXPECT_EQ(Match(Count(0, 5)).num_tokens, 4);
  pool_->Drop(blocks[0], 0);
}

TEST_F(PrefixCacheTest, StaleRefIsRecognisedAfterItsNodeIsReused) {
  Make({0});
  const NodeRef old = cache_->AddPending(cache_->Root(""), Count(0, 4), 7);
  cache_->ErasePending(old);
  const NodeRef fresh = cache_->AddPending(cache_->Root(""), Count(50, 4), 8);
  EXPECT_TRUE(cache_->IsPending(fresh));
  EXPECT_FALSE(cache_->IsPending(old));
  cache_->ErasePending(fresh);
}

TEST_F(PrefixCacheTest, PartialMatchIsTheLongestCommonPrefixAmongSiblings) {
  Make({0});
  StoreAndDrop({1, 2, 3, 4});
  StoreAndDrop({1, 2, 9, 4});
  StoreAndDrop({1, 5, 9, 4});
  const PrefixMatch match = Match({1, 2, 9, 1, 1});
  EXPECT_EQ(match.num_tokens, 0);
  EXPECT_EQ(match.partial_tokens, 3);
  EXPECT_EQ(Match({1, 2, 9}).partial_tokens, 2) << "the last token is computed in any case";
  EXPECT_EQ(Match({7, 2, 9}).partial_tokens, 0);
}

TEST_F(PrefixCacheTest, PartialMatchLooksPastSiblingsWithoutWindowBlocks) {
  Make({0, 5});
  BlockTable table(2);
  Store({1, 2, 3, 9, 5, 5, 5, 5}, &table);
  table.DropBefore(1, 2, 0, pool_.get());
  ASSERT_TRUE(cache_->MakeFree(13));  // the window block of {1, 2, 3, 9} goes
  StoreAndDrop({1, 2, 8, 8});
  EXPECT_EQ(Match({1, 2, 3, 9, 1}).partial_tokens, 2) << "with {1, 2, 8, 8}";
  table.DropAll(0, pool_.get());
}

TEST_F(PrefixCacheTest, WindowGroupNeedsOnlyWhatTheNextPositionSees) {
  Make({0, 6});
  StoreAndDrop(Count(0, 16));
  const PrefixMatch match = Match(Count(0, 18));
  EXPECT_EQ(match.num_tokens, 16);
  EXPECT_THAT(match.first_block, testing::ElementsAre(0, 2)) << "position 16 sees 11 to 16";
  EXPECT_THAT(Match(Count(0, 16)).first_block, testing::ElementsAre(0, 2))
      << "a full hit: position 15 sees 10 to 15";
}

TEST_F(PrefixCacheTest, MatchStopsWhereAWindowBlockIsAbsent) {
  Make({0, 5});
  BlockTable table(2);
  Store(Count(0, 12), &table);
  table.DropBefore(1, 2, 0, pool_.get());
  EXPECT_EQ(pool_->num_idle(), 2);
  ASSERT_TRUE(cache_->MakeFree(11));  // evicts the window block of the first node
  EXPECT_EQ(Match(Count(0, 5)).num_tokens, 0);
  EXPECT_EQ(Match(Count(0, 9)).num_tokens, 8) << "position 8 sees 4 to 8: the second node's";
  EXPECT_EQ(Match(Count(0, 13)).num_tokens, 12);
  table.DropAll(0, pool_.get());
}

TEST_F(PrefixCacheTest, WindowOnlyModelKeepsThePathToWhatIsLeft) {
  Make({5});
  BlockTable table(1);
  Store(Count(0, 12), &table);
  table.DropBefore(0, 2, 0, pool_.get());
  ASSERT_TRUE(cache_->MakeFree(15));
  EXPECT_EQ(Match(Count(0, 9)).num_tokens, 0) << "position 8 sees 4 to 8, which are gone";
  EXPECT_EQ(Match(Count(0, 13)).num_tokens, 12);
  table.DropAll(0, pool_.get());
  ASSERT_TRUE(cache_->MakeFree(16));
  EXPECT_EQ(Match(Count(0, 13)).num_tokens, 0);
  cache_->CheckInvariants();
}

TEST_F(PrefixCacheTest, NodeWithoutWindowBlocksThatNobodyNeedsIsReplaced) {
  Make({0, 5});
  BlockTable table(2);
  Store(Count(0, 8), &table);
  table.DropBefore(1, 2, 0, pool_.get());
  table.DropAll(0, pool_.get());
  ASSERT_TRUE(cache_->MakeFree(14));  // both window blocks go, being the oldest
  EXPECT_EQ(Match(Count(0, 5)).num_tokens, 0);
  BlockTable fresh(2);
  Store(Count(0, 4), &fresh);
  EXPECT_EQ(Match(Count(0, 5)).num_tokens, 4);
  fresh.DropAll(0, pool_.get());
}

}  // namespace
}  // namespace quire
