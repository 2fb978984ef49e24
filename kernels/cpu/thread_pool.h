#ifndef QUIRE_KERNELS_CPU_THREAD_POOL_H_
#define QUIRE_KERNELS_CPU_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace quire {

// Runs the chunks of one phase of a step on a fixed set of threads.
//
// It does not decide what a chunk is: whoever calls Run cuts the work, so that no result depends on
// which thread runs which chunk. Chunks are claimed in ascending order, one at a time, so put the
// long ones first. Idle workers spin for a bounded time, then sleep: phases of a step follow each
// other within microseconds, steps may not.
//
// The thread that calls Run is worker 0 and takes chunks too; one thread at a time may call it.
// Denormals are flushed (FTZ and DAZ) in every chunk. Run does not allocate.
class ThreadPool {
 public:
  // REQUIRES: num_threads >= 1. Starts num_threads - 1 threads.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls fn(chunk, worker) once for each chunk in [0, num_chunks), worker in [0, num_threads()),
  // and returns when all calls have returned. What they wrote is visible to the caller then, and
  // to the chunks of later calls. fn must not call Run.
  void Run(int num_chunks, absl::FunctionRef<void(int chunk, int worker)> fn);

 private:
  using ChunkFn = absl::FunctionRef<void(int chunk, int worker)>;

  void WorkerLoop(int worker);
  // Claims and runs chunks until none is left to claim.
  void RunChunks(int worker);
  bool WorkIsWaiting() const;
  void WaitUntilDone();

  // Written by the caller of Run before `unclaimed_` rises, read after a successful claim. A claim
  // is successful when `unclaimed_` was positive; the chunk it stands for keeps Run from returning,
  // so a late worker can never see the fields of the next phase by mistake.
  const ChunkFn* fn_ = nullptr;
  int num_chunks_ = 0;

  alignas(64) std::atomic<int> unclaimed_{0};
  alignas(64) std::atomic<int> num_done_{0};
  alignas(64) std::atomic<int> num_sleeping_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stopping_{false};

  absl::Mutex mutex_;
  absl::CondVar work_arrived_;
  absl::CondVar all_done_;

  std::vector<std::thread> threads_;
};

// Sets FTZ and DAZ for the lifetime of the object, on this thread. Kernels and their scalar
// definitions are exact only under it.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ~ScopedFlushDenormals();

  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;

 private:
  const uint32_t saved_;
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_THREAD_POOL_H_
