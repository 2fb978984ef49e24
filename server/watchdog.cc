#include "server/watchdog.h"

#include <chrono>
#include <pthread.h>
#include <utility>

#include "server/steady_now.h"

namespace quire {
namespace {

std::chrono::milliseconds PeriodOf(const Watchdog::Options& options) {
  return std::chrono::milliseconds(std::clamp<int64_t>(options.silent_ms / 8, 1, 1000));
}

}  // namespace

Watchdog::Watchdog(const Options& options, Hooks hooks)
    : options_(options),
      hooks_(std::move(hooks)),
      meter_(std::chrono::microseconds(2 * PeriodOf(options)).count()),
      thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watchdog::Watch(LastSign last_sign) {
  std::lock_guard<std::mutex> lock(mu_);
  last_sign_ = std::move(last_sign);
}

void Watchdog::Run() {
  pthread_setname_np(pthread_self(), "quire-watchdog");
  std::unique_lock<std::mutex> lock(mu_);
  while (!wake_.wait_for(lock, PeriodOf(options_), [this] { return stop_; })) {
    if (last_sign_ != nullptr) Look();
  }
}

void Watchdog::Look() {
  const TimeUs silence = meter_.Measure(SteadyNow(), last_sign_());
  if (silence < options_.silent_ms * 1000) {
    if (state_ != State::kAlive) hooks_.on_change(true);
    state_ = State::kAlive;
    return;
  }
  if (state_ == State::kAlive) {
    state_ = State::kSilent;
    hooks_.on_change(false);
    hooks_.on_silence(silence);
  }
  if (state_ == State::kSilent && options_.fatal_ms > 0 && silence >= options_.fatal_ms * 1000) {
    state_ = State::kFatal;
    hooks_.on_fatal(silence);
  }
}

}  // namespace quire
