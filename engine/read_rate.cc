#include "engine/read_rate.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

// Beyond the caches of the machines we know, so that what is read comes from memory.
constexpr int64_t kBytes = int64_t{512} << 20;
constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr int kNumChunks = static_cast<int>(kBytes / kChunkBytes);
// Chunks of one measurement. Other load and clocks change by the moment: the best of many short
// ones counts.
constexpr int kRoundChunks = 64;
constexpr std::chrono::milliseconds kDuration(600);

// Several sums at once, so that additions do not wait for each other: loads are what it is about.
uint64_t SumOf(const uint64_t* words) {
  constexpr int kNumSums = 8;
  uint64_t sums[kNumSums] = {};
  for (int64_t i = 0; i < kChunkBytes / 8; i += kNumSums) {
    for (int j = 0; j < kNumSums; ++j) sums[j] += words[i + j];
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

absl::StatusOr<double> MeasureReadRate(int num_threads) {
  absl::Status has_memory = CheckMachineHas(kBytes, "measuring how fast memory is read");
  if (!has_memory.ok()) return has_memory;
  absl::StatusOr<MappedMemory> memory = MappedMemory::Map(kBytes, "measuring read bandwidth");
  if (!memory.ok()) return memory.status();
  auto* const words = reinterpret_cast<uint64_t*>(memory->data());
  const auto chunk_at = [words](int chunk) { return words + chunk * (kChunkBytes / 8); };

  ThreadPool pool(num_threads > 0 ? num_threads : DefaultNumThreads());
  // Pages that nobody wrote to would all be one and the same.
  pool.Run(kNumChunks, [&](int chunk, int) {
    std::fill_n(chunk_at(chunk), kChunkBytes / 8, static_cast<uint64_t>(chunk));
  });
  std::vector<uint64_t> sums(kNumChunks);
  double best = 0;
  int first = 0;
  for (const Clock::time_point end = Clock::now() + kDuration; Clock::now() < end;) {
    const Clock::time_point start = Clock::now();
    pool.Run(kRoundChunks,
             [&](int chunk, int) { sums[first + chunk] += SumOf(chunk_at(first + chunk)); });
    const std::chrono::duration<double> took = Clock::now() - start;
    best = std::max(best, static_cast<double>(kRoundChunks * kChunkBytes) / took.count());
    first = (first + kRoundChunks) % kNumChunks;
  }
  // Read, so that the compiler keeps the sums.
  volatile uint64_t sink = sums[0];
  (void)sink;
  return best;
}

}  // namespace quire
