// BlockPool against a plain model of it: where each block is, who holds it, which steps name it.
#include <algorithm>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "paged_kv/block_pool.h"
#include "tests/sim/acts.h"

namespace quire {
namespace {

enum class Place { kUntouched, kFree, kHeld, kFenced, kIdle };

struct ModelBlock {
  Place place = Place::kUntouched;
  int32_t num_holders = 0;
  bool is_cached = false;
  StepId fence = 0;
  uint32_t generation = 0;
};

enum class Event { kIdle, kHeldAgain };

// The acts are the pool's calls. Variants: with a listener; in random order; without a listener.
class PoolWorld : public BlockPool::IdleListener {
 public:
  static constexpr int32_t kNumVariants = 3;
  static constexpr int32_t kNumBlocks = 6;

  static const std::vector<ActKind<PoolWorld>>& Kinds() {
    static const std::vector<ActKind<PoolWorld>> kinds = {
        {"SetTouched", 2, &PoolWorld::SetTouched},
        {"Take", 4, &PoolWorld::Take},
        {"Drop", 6, &PoolWorld::Drop},
        {"Hold", 4, &PoolWorld::Hold},
        {"MarkCached", 4, &PoolWorld::MarkCached},
        {"Uncache", 2, &PoolWorld::Uncache},
        {"CommitStep", 2, &PoolWorld::CommitStep},
    };
    return kinds;
  }

  explicit PoolWorld(int32_t variant)
      : is_shuffled_(variant == 1),
        is_heard_(variant != 2),
        pool_(kNumBlocks, is_shuffled_ ? 7 : 0),
        blocks_(kNumBlocks) {
    if (is_heard_) pool_.SetListener(this);
  }

  void SetTouched(const Act& act) {
    const int32_t n = act.a % (kNumBlocks + 1);
    pool_.SetTouched(n);
    for (; num_touched_ < n; ++num_touched_) {
      blocks_[num_touched_].place = Place::kFree;
      free_.push_front({num_touched_});  // after all that was freed, and in ascending order
    }
  }

  void Take(const Act& act) {
    const int32_t count = act.a % (kNumBlocks + 2);
    std::vector<BlockId> taken = {-7};
    const bool is_taken = pool_.Take(count, &taken);
    SIM_REQUIRE_EQ(is_taken, count <= Count(Place::kFree));
    SIM_REQUIRE_EQ(static_cast<int32_t>(taken.size()), is_taken ? count + 1 : 1);
    SIM_REQUIRE_EQ(taken[0], -7, "what was there before");
    for (size_t i = 1; i < taken.size(); ++i) {
      ModelBlock& block = blocks_.at(taken[i]);
      SIM_REQUIRE(block.place == Place::kFree, "block ", taken[i]);
      SIM_REQUIRE(block.fence <= committed_, "block ", taken[i], " is behind a fence");
      RemoveFromFree(taken[i]);
      block = {Place::kHeld, 1, false, block.fence, block.generation + 1};
    }
  }

  void Hold(const Act& act) {
    const std::vector<BlockId> may = Where(
        [](const ModelBlock& block) { return block.place == Place::kHeld || block.is_cached; });
    if (may.empty()) return;
    const BlockId id = PickFrom(may, act.a);
    pool_.Hold(id);
    ModelBlock& block = blocks_[id];
    if (block.place == Place::kIdle) expected_.insert({Event::kHeldAgain, id});
    block.place = Place::kHeld;
    ++block.num_holders;
  }

  void Drop(const Act& act) {
    const std::vector<BlockId> held =
        Where([](const ModelBlock& block) { return block.num_holders > 0; });
    if (held.empty()) return;
    const BlockId id = PickFrom(held, act.a);
    const StepId last_step = static_cast<StepId>(act.b) % (committed_ + 4);
    pool_.Drop(id, last_step);
    ModelBlock& block = blocks_[id];
    block.fence = std::max(block.fence, last_step);
    if (--block.num_holders > 0) return;
    block.place = Place::kFenced;
    free_.emplace_back();
    LeaveFences();
  }

  void MarkCached(const Act& act) {
    const std::vector<BlockId> may = Where(
        [](const ModelBlock& block) { return block.place == Place::kHeld && !block.is_cached; });
    if (may.empty() || !is_heard_) return;
    const BlockId id = PickFrom(may, act.a);
    pool_.MarkCached(id);
    blocks_[id].is_cached = true;
  }

  void Uncache(const Act& act) {
    const std::vector<BlockId> may = Where([](const ModelBlock& block) { return block.is_cached; });
    if (may.empty()) return;
    const BlockId id = PickFrom(may, act.a);
    pool_.Uncache(id);
    blocks_[id].is_cached = false;
    if (blocks_[id].place != Place::kIdle) return;
    blocks_[id].place = Place::kFree;
    free_.push_back({id});
  }

  void CommitStep(const Act& act) {
    committed_ += 1 + (act.a % 8 == 7 ? act.b % 3 : 0);
    pool_.CommitStep(committed_);
    free_.emplace_back();
    LeaveFences();
  }

  void Check() {
    SIM_REQUIRE_EQ(pool_.num_blocks(), kNumBlocks);
    SIM_REQUIRE_EQ(pool_.num_touched(), num_touched_);
    SIM_REQUIRE_EQ(pool_.num_free(), Count(Place::kFree));
    SIM_REQUIRE_EQ(pool_.num_held(), Count(Place::kHeld));
    SIM_REQUIRE_EQ(pool_.num_fenced(), Count(Place::kFenced));
    SIM_REQUIRE_EQ(pool_.num_idle(), Count(Place::kIdle));
    const std::vector<BlockId> cached_unheld =
        Where([](const ModelBlock& block) { return block.is_cached && block.num_holders == 0; });
    SIM_REQUIRE_EQ(pool_.num_cached_unheld(), static_cast<int32_t>(cached_unheld.size()));
    for (BlockId id = 0; id < kNumBlocks; ++id) {
      const ModelBlock& block = blocks_[id];
      SIM_REQUIRE_EQ(pool_.num_holders(id), block.num_holders, "block ", id);
      SIM_REQUIRE_EQ(pool_.is_cached(id), block.is_cached, "block ", id);
      SIM_REQUIRE_EQ(pool_.is_idle(id), block.place == Place::kIdle, "block ", id);
      SIM_REQUIRE_EQ(pool_.generation(id), block.generation, "block ", id);
    }
    SIM_REQUIRE(heard_ == expected_, "heard ", Text(heard_), ", expected ", Text(expected_));
    SIM_REQUIRE(hears_truly_, "is_idle() while the listener is called");
    heard_.clear();
    expected_.clear();
    pool_.CheckInvariants();
  }

  // Nothing is lost: given back and forgotten, all blocks can be had at once.
  void Finish() {
    while (Count(Place::kHeld) > 0) Drop({"Drop", 0, 0, 0});
    while (!Where([](const ModelBlock& block) { return block.is_cached; }).empty()) Uncache({});
    SetTouched({"SetTouched", kNumBlocks, 0, 0});
    CommitStep({"CommitStep", 7, 2, 0});
    CommitStep({"CommitStep", 0, 0, 0});
    Check();
    Take({"Take", kNumBlocks, 0, 0});
    Check();
    SIM_REQUIRE_EQ(Count(Place::kHeld), kNumBlocks);
  }

 protected:
  BlockPool& pool() { return pool_; }
  template <typename Condition>
  std::vector<BlockId> Where(const Condition& condition) const {
    std::vector<BlockId> ids;
    for (BlockId id = 0; id < kNumBlocks; ++id) {
      if (condition(blocks_[id])) ids.push_back(id);
    }
    return ids;
  }

 private:
  void OnIdle(BlockId block) override {
    heard_.insert({Event::kIdle, block});
    hears_truly_ &= pool_.is_idle(block);
  }
  void OnHeldAgain(BlockId block) override {
    heard_.insert({Event::kHeldAgain, block});
    hears_truly_ &= !pool_.is_idle(block);
  }

  int32_t Count(Place place) const {
    return static_cast<int32_t>(
        Where([&](const ModelBlock& block) { return block.place == place; }).size());
  }
  // To the last of free_: those that leave at the same time do so in any order.
  void LeaveFences() {
    for (const BlockId id : Where([&](const ModelBlock& block) {
           return block.place == Place::kFenced && block.fence <= committed_;
         })) {
      blocks_[id].place = blocks_[id].is_cached ? Place::kIdle : Place::kFree;
      if (blocks_[id].is_cached) {
        expected_.insert({Event::kIdle, id});
      } else {
        free_.back().insert(id);
      }
    }
  }
  void RemoveFromFree(BlockId id) {
    while (!free_.empty() && free_.back().empty()) free_.pop_back();
    if (!is_shuffled_) {
      SIM_REQUIRE(free_.back().contains(id), "block ", id, " is not the newest freed");
    }
    for (std::set<BlockId>& freed : free_) freed.erase(id);
  }
  static std::string Text(const std::multiset<std::pair<Event, BlockId>>& events) {
    return absl::StrJoin(events, " ", [](std::string* out, const auto& event) {
      absl::StrAppend(out, event.first == Event::kIdle ? "idle " : "held ", event.second);
    });
  }

  const bool is_shuffled_;
  const bool is_heard_;
  BlockPool pool_;
  std::vector<ModelBlock> blocks_;
  std::deque<std::set<BlockId>> free_;  // freed together; the last are handed out first
  StepId committed_ = 0;
  int32_t num_touched_ = 0;
  std::multiset<std::pair<Event, BlockId>> heard_;  // since the last Check
  std::multiset<std::pair<Event, BlockId>> expected_;
  bool hears_truly_ = true;
};

TEST(BlockPoolProperties, EveryCallLeavesThePoolAsTheModelSays) {
  CheckWorld<PoolWorld>(std::chrono::seconds(5), 200);
}

// Shrunken lists of acts that once failed, as RapidCheck printed them, with their variant; none so
// far. The one here is of the kind: a block behind two fences, the first of which comes up first.
TEST(BlockPoolProperties, RegressionsStayFixed) {
  EXPECT_EQ(Play<PoolWorld>(0, {{"SetTouched", 1},
                                {"Take", 1},
                                {"MarkCached"},
                                {"Drop", 0, 1},
                                {"Hold"},
                                {"Drop", 0, 2},
                                {"CommitStep"},
                                {"CommitStep"}}),
            "");
}

// ---- the tests' own test: a wrong use is caught, and shrunken to what it takes ----

class WrongWorld : public PoolWorld {
 public:
  using PoolWorld::PoolWorld;
  static const std::vector<ActKind<WrongWorld>>& Kinds() {
    static const std::vector<ActKind<WrongWorld>> kinds = [] {
      std::vector<ActKind<WrongWorld>> all = {{"DropTwice", 2, &WrongWorld::DropTwice}};
      for (const auto& kind : PoolWorld::Kinds()) all.push_back({kind.name, kind.weight, kind.run});
      return all;
    }();
    return kinds;
  }

  // A holder drops its block, and then, no longer a holder, once more.
  void DropTwice(const Act& act) {
    const BlockId id = HeldOnce(act.a);
    if (id == kNoBlock) return;
    pool().Drop(id, 0);
    pool().Drop(id, 0);  // nothing lives here that the jump out of it would leak
  }

 private:
  BlockId HeldOnce(int32_t a) const {
    const std::vector<BlockId> once =
        Where([](const ModelBlock& block) { return block.num_holders == 1; });
    return once.empty() ? kNoBlock : PickFrom(once, a);
  }
};

TEST(BlockPoolProperties, DropByANonHolderIsCaughtAndShrunkenToWhatItTakes) {
  const uint64_t seed = rc::detail::configuration().testParams.seed;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const rc::detail::TestResult result = FindViolation<WrongWorld>(seed, 200);
  ASSERT_TRUE(result.is<rc::detail::FailureResult>());
  const auto& failure = result.get<rc::detail::FailureResult>();
  EXPECT_NE(failure.description.find("dropped by a holder"), std::string::npos)
      << failure.description;
  ASSERT_EQ(failure.counterExample.size(), 2u);
  EXPECT_EQ(failure.counterExample[0].second, "0") << "the plainest variant";
  EXPECT_EQ(failure.counterExample[1].second,
            "{\"SetTouched\", 1, 0, 0},\n{\"Take\", 1, 0, 0},\n{\"DropTwice\", 0, 0, 0},\n");
}

TEST(CheckCatcherTest, FailedCheckIsToldAndTheNextCallRuns) {
  BlockPool pool(1);
  const std::string told = CheckCatcher::Run([&] { pool.SetTouched(2); });
  EXPECT_NE(told.find("touched blocks are blocks of the pool"), std::string::npos) << told;
  EXPECT_EQ(CheckCatcher::Run([&] { pool.SetTouched(1); }), "");
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(CheckCatcherTest, ExceptionsPassAndDisarmIt) {
  EXPECT_EQ(ViolationIn([] { throw Violation{"what"}; }), "what");
  EXPECT_DEATH(BlockPool(1).SetTouched(2), "touched blocks are blocks of the pool");
}

}  // namespace
}  // namespace quire
