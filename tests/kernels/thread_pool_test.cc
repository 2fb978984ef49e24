#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace quire {
namespace {

// Volatile: so that the compiler does not compute it.
volatile float smallest_normal = 0x1p-126f;

bool DenormalsAreFlushed() {
  const float half = smallest_normal * 0.5f;
  return half == 0;
}

TEST(ThreadPool, RunsEveryChunkOnce) {
  for (int num_threads : {1, 2, 4}) {
    ThreadPool pool(num_threads);
    EXPECT_EQ(pool.num_threads(), num_threads);
    for (int num_chunks : {0, 1, 2, 3, 17, 1000}) {
      std::vector<std::atomic<int>> counts(num_chunks);
      pool.Run(num_chunks, [&](int chunk, int worker) {
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, num_threads);
        counts[chunk].fetch_add(1);
      });
      for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, APhaseSeesWhatTheOneBeforeWrote) {
  ThreadPool pool(3);
  constexpr int kSize = 64;
  std::vector<int64_t> values(kSize, 1), next(kSize);
  for (int phase = 0; phase < 5000; ++phase) {
    // Plain writes and reads of neighbours: a race would be seen by the sanitizer, a late worker
    // by the sums.
    pool.Run(kSize, [&](int i, int) { next[i] = values[i] + values[(i + 1) % kSize] % 7; });
    pool.Run(kSize, [&](int i, int) { values[i] = next[(i + 1) % kSize]; });
  }
  std::vector<int64_t> expected(kSize, 1);
  for (int phase = 0; phase < 5000; ++phase) {
    for (int i = 0; i < kSize; ++i) next[i] = expected[i] + expected[(i + 1) % kSize] % 7;
    for (int i = 0; i < kSize; ++i) expected[i] = next[(i + 1) % kSize];
  }
  EXPECT_EQ(values, expected);
}

TEST(ThreadPool, WorkersThatSleepWakeUp) {
  ThreadPool pool(2);
  for (int phase = 0; phase < 20; ++phase) {
    // Longer than workers spin, so they sleep before the next phase; and a long chunk, so that the
    // caller sleeps as well.
    volatile int64_t sink = 0;
    for (int i = 0; i < 3'000'000; ++i) sink = sink + i;
    std::atomic<int> count = 0;
    pool.Run(2, [&](int, int) {
      volatile int64_t local = 0;
      for (int i = 0; i < 1'000'000; ++i) local = local + i;
      count.fetch_add(1);
    });
    EXPECT_EQ(count.load(), 2);
  }
}

TEST(ThreadPool, FlushesDenormalsInChunksAndNowhereElse) {
  ThreadPool pool(2);
  EXPECT_FALSE(DenormalsAreFlushed());
  for (int num_chunks : {1, 64}) {
    std::atomic<int> flushed = 0;
    pool.Run(num_chunks, [&](int, int) { flushed.fetch_add(DenormalsAreFlushed()); });
    EXPECT_EQ(flushed.load(), num_chunks);
  }
  EXPECT_FALSE(DenormalsAreFlushed());
}

TEST(ThreadPool, CanBeEndedWithoutWork) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(3);
}

}  // namespace
}  // namespace quire
