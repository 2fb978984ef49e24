// PrefixCache over a real BlockPool and LruEviction, beside NaivePrefixCache.
#include <chrono>

#include "gtest/gtest.h"

#include "tests/sim/acts.h"
#include "tests/sim/prefix_cache_world.h"

namespace quire {
namespace {

TEST(PrefixCacheProperties, EveryCallLeavesTheCacheAsTheModelSays) {
  CheckWorld<CacheWorld>(std::chrono::seconds(7), 150);
}

// Shrunken lists of acts that once failed, as RapidCheck printed them, with their variant.

// A sibling that lacks a window block stood next to what was looked for, and hid a complete one
// that shares less with it, but something.
TEST(PrefixCacheProperties, RegressionPartialMatchLooksPastIncompleteSiblings) {
  EXPECT_EQ(Play<CacheWorld>(31, {{"Start", 0, 0, 0},
                                  {"Start", 1, 0, 0},
                                  {"Compute", 1, 0, 1},
                                  {"End", 0, 0, 0},
                                  {"Publish", 0, 0, 0},
                                  {"End", 0, 0, 0},
                                  {"Start", 1, 0, 0},
                                  {"Compute", 0, 0, 0},
                                  {"Compute", 0, 0, 0},
                                  {"Compute", 0, 0, 0},
                                  {"SlideWindows", 0, 0, 0},
                                  {"Publish", 0, 0, 0},
                                  {"Probe", 1, 4, 0}}),
            "");
}

}  // namespace
}  // namespace quire
