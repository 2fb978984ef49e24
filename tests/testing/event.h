#ifndef QUIRE_TESTS_TESTING_EVENT_H_
#define QUIRE_TESTS_TESTING_EVENT_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace quire {

// Something that happens once, and that other threads wait for. In std terms: ThreadSanitizer does
// not see what absl::Notification orders on its fast path, because absl is not instrumented.
class Event {
 public:
  void Notify() {
    const std::lock_guard<std::mutex> lock(mu_);
    happened_ = true;
    changed_.notify_all();
  }
  bool HasHappened() {
    const std::lock_guard<std::mutex> lock(mu_);
    return happened_;
  }
  // False: it did not happen within a minute.
  bool Wait() {
    std::unique_lock<std::mutex> lock(mu_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [this] { return happened_; });
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool happened_ = false;
};

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_EVENT_H_
