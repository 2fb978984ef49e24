#ifndef QUIRE_SERVER_WATCHDOG_H_
#define QUIRE_SERVER_WATCHDOG_H_

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "scheduler/request.h"

namespace quire {

// For how long has a sign of life not changed? Time in which nobody measured counts for little: a
// process that was stopped, or a machine that was suspended, could not have given signs.
class SilenceMeter {
 public:
  // At most `max_gap` is counted between two measures.
  explicit SilenceMeter(TimeUs max_gap) : max_gap_(max_gap) {}

  TimeUs Measure(TimeUs now, TimeUs sign) {
    silence_ = sign == sign_ ? silence_ + std::min(now - measured_at_, max_gap_) : 0;
    sign_ = sign;
    measured_at_ = now;
    return silence_;
  }

 private:
  const TimeUs max_gap_;
  TimeUs silence_ = 0;
  TimeUs sign_ = kNever;
  TimeUs measured_at_ = 0;
};

// Is there still a sign of life? A Watchdog looks on a thread of its own, which waits for nobody
// else's. What is watched and what silence means are its owner's.
//
// Threads: any. Hooks run on the watchdog's thread, under its lock: they must not call it.
class Watchdog {
 public:
  struct Options {
    int64_t silent_ms = 0;  // without a sign for this long: not alive
    int64_t fatal_ms = 0;   // for this long: the end; 0: never
  };
  struct Hooks {
    std::function<void(bool alive)> on_change;       // alive until told otherwise
    std::function<void(TimeUs silence)> on_silence;  // once for each silence, after on_change
    std::function<void(TimeUs silence)> on_fatal;    // once for each silence
  };
  // When the last sign of life was, on any clock; only whether it changes counts.
  using LastSign = std::function<TimeUs()>;

  Watchdog(const Options& options, Hooks hooks);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Watches this from now on. What was watched before is not called any more once this returns.
  void Watch(LastSign last_sign);

 private:
  enum class State { kAlive, kSilent, kFatal };

  void Run();
  void Look();  // REQUIRES: mu_ is held

  const Options options_;
  const Hooks hooks_;
  std::mutex mu_;
  std::condition_variable wake_;
  // Guarded by mu_.
  bool stop_ = false;
  LastSign last_sign_;
  SilenceMeter meter_;
  State state_ = State::kAlive;

  std::thread thread_;  // last: uses the others
};

}  // namespace quire

#endif  // QUIRE_SERVER_WATCHDOG_H_
