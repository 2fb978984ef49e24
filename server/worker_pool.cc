#include "server/worker_pool.h"

#include <pthread.h>
#include <utility>

namespace quire {

WorkerPool::WorkerPool(const char* name, int num_threads) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this, name] { Work(name); });
}

WorkerPool::~WorkerPool() { Stop(); }

void WorkerPool::Add(std::function<void()> job) {
  bool wake = false;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (stopped_) return;
    jobs_.push_back(std::move(job));
    wake = num_sleeping_ > 0;
  }
  if (wake) wake_.notify_one();
}

void WorkerPool::Stop() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopped_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkerPool::Work(const char* name) {
  pthread_setname_np(pthread_self(), name);
  std::unique_lock<std::mutex> lock(mu_);
  for (;;) {
    while (jobs_.empty() && !stopped_) {
      ++num_sleeping_;
      wake_.wait(lock);
      --num_sleeping_;
    }
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds is let go outside the lock
    lock.lock();
  }
}

}  // namespace quire
