#include "paged_kv/block_pool.h"

#include <algorithm>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "paged_kv/block_table.h"

namespace quire {
namespace {

using testing::ElementsAre;

// Notes what it hears.
struct Listener : BlockPool::IdleListener {
  void OnIdle(BlockId block) override { idle.push_back(block); }
  void OnHeldAgain(BlockId block) override { held_again.push_back(block); }
  std::vector<BlockId> idle;
  std::vector<BlockId> held_again;
};

std::vector<BlockId> Take(BlockPool* pool, int32_t count) {
  std::vector<BlockId> blocks;
  EXPECT_TRUE(pool->Take(count, &blocks));
  pool->CheckInvariants();
  return blocks;
}

TEST(BlockPoolTest, OnlyTouchedBlocksAreHandedOut) {
  BlockPool pool(4);
  std::vector<BlockId> blocks;
  EXPECT_FALSE(pool.Take(1, &blocks));
  pool.SetTouched(2);
  EXPECT_THAT(Take(&pool, 2), ElementsAre(0, 1));
  EXPECT_FALSE(pool.Take(1, &blocks));
  EXPECT_TRUE(blocks.empty());
}

TEST(BlockPoolTest, TakingMoreThanIsFreeTakesNothing) {
  BlockPool pool(4);
  pool.SetTouched(4);
  std::vector<BlockId> blocks;
  EXPECT_FALSE(pool.Take(5, &blocks));
  EXPECT_EQ(pool.num_free(), 4);
}

TEST(BlockPoolTest, NewestFreedComesFirst) {
  BlockPool pool(8);
  pool.SetTouched(4);
  const std::vector<BlockId> blocks = Take(&pool, 4);
  pool.Drop(2, 0);
  pool.Drop(1, 0);
  pool.SetTouched(8);
  EXPECT_THAT(Take(&pool, 3), ElementsAre(1, 2, 4));
}

TEST(BlockPoolTest, LastHolderFreesTheBlock) {
  BlockPool pool(1);
  pool.SetTouched(1);
  Take(&pool, 1);
  pool.Hold(0);
  pool.Drop(0, 0);
  EXPECT_EQ(pool.num_held(), 1);
  pool.Drop(0, 0);
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(BlockPoolTest, FreedBlockWaitsForTheNewestStepThatNamesIt) {
  BlockPool pool(1);
  pool.SetTouched(1);
  Take(&pool, 1);
  pool.Hold(0);
  pool.Drop(0, 2);
  pool.Drop(0, 1);
  EXPECT_EQ(pool.num_fenced(), 1);
  pool.CommitStep(1);
  EXPECT_EQ(pool.num_free(), 0);
  pool.CommitStep(2);
  EXPECT_EQ(pool.num_free(), 1);
  pool.CheckInvariants();
}

TEST(BlockPoolTest, EachHandingOutIsANewGeneration) {
  BlockPool pool(1);
  pool.SetTouched(1);
  Take(&pool, 1);
  const uint32_t first = pool.generation(0);
  pool.Drop(0, 0);
  Take(&pool, 1);
  EXPECT_EQ(pool.generation(0), first + 1);
}

TEST(BlockPoolTest, CachedBlockIsIdleOnceNoStepNamesItAndCanBeHeldAgain) {
  Listener listener;
  BlockPool pool(2);
  pool.SetListener(&listener);
  pool.SetTouched(2);
  Take(&pool, 1);
  pool.MarkCached(0);
  pool.Drop(0, 1);
  EXPECT_EQ(pool.num_idle(), 0);
  EXPECT_EQ(pool.num_cached_unheld(), 1);
  pool.CommitStep(1);
  EXPECT_THAT(listener.idle, ElementsAre(0));
  pool.Hold(0);
  EXPECT_THAT(listener.held_again, ElementsAre(0));
  pool.Drop(0, 0);
  pool.Uncache(0);
  EXPECT_EQ(pool.num_free(), 2);
  pool.CheckInvariants();
}

TEST(BlockPoolTest, FencedCachedBlockHeldAgainIsNotFreedByTheOldFence) {
  Listener listener;
  BlockPool pool(1);
  pool.SetListener(&listener);
  pool.SetTouched(1);
  Take(&pool, 1);
  pool.MarkCached(0);
  pool.Drop(0, 1);
  pool.Hold(0);
  pool.CommitStep(1);
  EXPECT_EQ(pool.num_held(), 1);
  pool.CheckInvariants();
}

TEST(BlockPoolTest, ShuffleIsReproducibleAndDiffersFromTheOrder) {
  const auto order = [](uint64_t seed) {
    BlockPool pool(32, seed);
    pool.SetTouched(32);
    return Take(&pool, 32);
  };
  EXPECT_EQ(order(5), order(5));
  EXPECT_NE(order(5), order(6));
  EXPECT_NE(order(5), order(0));
}

TEST(BlockPoolTest, RandomUseKeepsTheInvariantsAndTheFence) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  Listener listener;
  BlockPool pool(24, random() % 2 == 0 ? 0 : seed);
  pool.SetListener(&listener);
  std::multimap<BlockId, uint64_t> held;  // holder, its last step
  StepId planned = 0;
  StepId committed = 0;
  std::map<BlockId, StepId> named;
  for (int i = 0; i < 20'000; ++i) {
    switch (random() % 6) {
      case 0: {
        std::vector<BlockId> blocks;
        if (pool.Take(static_cast<int32_t>(random() % 4), &blocks)) {
          for (const BlockId block : blocks) {
            ASSERT_LE(named[block], committed) << "handed out under the fence";
            held.insert({block, 0});
          }
        }
        break;
      }
      case 1:
        if (planned < committed + 3) ++planned;
        break;
      case 2:
        if (committed < planned) pool.CommitStep(++committed);
        break;
      case 3:
        pool.SetTouched(static_cast<int32_t>(random() % 25));
        break;
      default:
        if (held.empty()) break;
        const auto it = std::next(held.begin(), static_cast<int64_t>(random() % held.size()));
        if (random() % 3 == 0) {
          pool.Hold(it->first);
          held.insert({it->first, 0});
        } else {
          named[it->first] = std::max(named[it->first], planned);
          pool.Drop(it->first, planned);
          held.erase(it);
        }
    }
    pool.CheckInvariants();
  }
}

TEST(BlockTableTest, WindowBlocksAreDroppedFromTheFront) {
  BlockPool pool(8);
  pool.SetTouched(8);
  BlockTable table(2);
  for (int i = 0; i < 3; ++i) table.Append(Take(&pool, 2));
  table.DropBefore(1, 2, 0, &pool);
  EXPECT_THAT(table.ids()[0], ElementsAre(0, 2, 4));
  EXPECT_THAT(table.ids()[1], ElementsAre(kNoBlock, kNoBlock, 5));
  EXPECT_EQ(table.first_held(1), 2);
  EXPECT_EQ(pool.num_held(), 4);
  table.DropAll(0, &pool);
  EXPECT_EQ(pool.num_held(), 0);
  EXPECT_EQ(table.num_blocks(), 0);
  EXPECT_THAT(Take(&pool, 2), ElementsAre(0, 2)) << "the first blocks were dropped last";
}

}  // namespace
}  // namespace quire
