#include "kernels/cpu/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>

namespace quire {
namespace {

// MXCSR: results that would be denormal become zero, denormal operands count as zero.
constexpr uint32_t kFlushToZero = 0x8000;
constexpr uint32_t kDenormalsAreZero = 0x0040;

// About 50 us on Zen 5 and 100 us on Intel servers: longer than the gaps inside a step, shorter
// than a time slice.
constexpr int kSpins = 2000;

}  // namespace

ScopedFlushDenormals::ScopedFlushDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero);
}

ScopedFlushDenormals::~ScopedFlushDenormals() { _mm_setcsr(saved_); }

ThreadPool::ThreadPool(int num_threads) {
  threads_.reserve(num_threads - 1);
  for (int worker = 1; worker < num_threads; ++worker) {
    threads_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_.store(true);
    work_arrived_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Run(int num_chunks, absl::FunctionRef<void(int chunk, int worker)> fn) {
  ScopedFlushDenormals flush;
  if (num_chunks <= 1 || threads_.empty()) {
    for (int chunk = 0; chunk < num_chunks; ++chunk) fn(chunk, 0);
    return;
  }
  fn_ = &fn;
  num_chunks_ = num_chunks;
  num_done_.store(0, std::memory_order_relaxed);
  // Sequentially consistent with the worker's order in WorkerLoop: either it sees the work before
  // it sleeps, or this thread sees that it sleeps.
  unclaimed_.store(num_chunks);
  if (num_sleeping_.load() > 0) {
    absl::MutexLock lock(&mutex_);
    work_arrived_.SignalAll();
  }
  RunChunks(0);
  WaitUntilDone();
}

void ThreadPool::RunChunks(int worker) {
  while (WorkIsWaiting()) {
    const int unclaimed = unclaimed_.fetch_sub(1, std::memory_order_acq_rel);
    if (unclaimed <= 0) return;
    const int num_chunks = num_chunks_;
    (*fn_)(num_chunks - unclaimed, worker);
    // Past this line the phase may be over: no field of it is read any more.
    if (num_done_.fetch_add(1) + 1 == num_chunks && caller_sleeps_.load()) {
      absl::MutexLock lock(&mutex_);
      all_done_.Signal();
    }
  }
}

bool ThreadPool::WorkIsWaiting() const { return unclaimed_.load(std::memory_order_relaxed) > 0; }

void ThreadPool::WaitUntilDone() {
  const int num_chunks = num_chunks_;
  for (int spin = 0; spin < kSpins; ++spin) {
    if (num_done_.load(std::memory_order_acquire) == num_chunks) return;
    _mm_pause();
  }
  absl::MutexLock lock(&mutex_);
  caller_sleeps_.store(true);
  while (num_done_.load() != num_chunks) all_done_.Wait(&mutex_);
  caller_sleeps_.store(false);
}

void ThreadPool::WorkerLoop(int worker) {
  pthread_setname_np(pthread_self(), "quire-compute");
  ScopedFlushDenormals flush;
  while (!stopping_.load(std::memory_order_relaxed)) {
    RunChunks(worker);
    int spin = 0;
    while (spin < kSpins && !WorkIsWaiting()) {
      _mm_pause();
      ++spin;
    }
    if (spin < kSpins) continue;
    absl::MutexLock lock(&mutex_);
    num_sleeping_.fetch_add(1);
    while (unclaimed_.load() <= 0 && !stopping_.load()) work_arrived_.Wait(&mutex_);
    num_sleeping_.fetch_sub(1);
  }
}

}  // namespace quire
