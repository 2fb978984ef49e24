#ifndef QUIRE_SERVER_CLI_SIGNAL_WATCH_H_
#define QUIRE_SERVER_CLI_SIGNAL_WATCH_H_

#include <csignal>
#include <functional>
#include <initializer_list>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace quire::cli {

// Takes signals as ordinary calls: `on_signal` runs on a thread of its own, one signal after
// another, and may lock, log and allocate. While a SignalWatch lives its signals do nothing else.
//
// REQUIRES: made before any other thread that may take these signals, because threads inherit what
// is blocked; at most one at a time.
class SignalWatch {
 public:
  SignalWatch(std::initializer_list<int> signals, std::function<void(int signal)> on_signal);
  // Waits for a call that is in progress.
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  void Watch();

  const std::function<void(int signal)> on_signal_;
  sigset_t signals_;
  sigset_t signals_before_;
  int signal_fd_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

// What Ctrl-C does to a command: ends it at once with kInterrupted, or calls what was set last.
// The same rules as for SignalWatch.
class InterruptHandler {
 public:
  InterruptHandler();

  // From now on; empty: ends at once again. Waits for a call that is in progress, so that what the
  // old one used may go away.
  void Set(std::function<void()> on_interrupt) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  std::function<void()> on_interrupt_ ABSL_GUARDED_BY(mutex_);
  SignalWatch watch_;  // last: its thread uses the others
};

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_SIGNAL_WATCH_H_
