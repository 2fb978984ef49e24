#ifndef QUIRE_SERVER_WORKER_POOL_H_
#define QUIRE_SERVER_WORKER_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace quire {

// Who does work that must not be done where it came up? A WorkerPool runs jobs on its threads, in
// the order they came. It does not bound the queue: who adds jobs does (streams open at once).
//
// Threads: Add from any thread; it wakes a worker only where one sleeps. Jobs must not block on
// other jobs of the same pool.
class WorkerPool {
 public:
  // `name`: of its threads, for those who look from outside; at most 15 bytes.
  WorkerPool(const char* name, int num_threads);
  // Runs what is queued, then joins.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void Add(std::function<void()> job);
  // Runs what is queued and joins. Jobs that come later are dropped.
  void Stop();

 private:
  void Work(const char* name);

  std::mutex mu_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;  // guarded by mu_
  int num_sleeping_ = 0;                    // guarded by mu_
  bool stopped_ = false;                    // guarded by mu_
  std::vector<std::thread> threads_;        // constant after construction, until Stop
};

}  // namespace quire

#endif  // QUIRE_SERVER_WORKER_POOL_H_
