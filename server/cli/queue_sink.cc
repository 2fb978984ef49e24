#include "server/cli/queue_sink.h"

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include <spdlog/pattern_formatter.h>

namespace quire::cli {
namespace {

bool WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(fd, text.data(), text.size());
    if (size >= 0) {
      text.remove_prefix(static_cast<size_t>(size));
    } else if (errno == EAGAIN) {  // whoever shares it may have made it so
      pollfd room = {fd, POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

struct QueueSink::State {
  State(int to, const QueueLimits& of) : fd(to), limits(of) {}

  const int fd;
  const QueueLimits limits;
  std::mutex mu;
  std::condition_variable wake;     // for the writer
  std::condition_variable written;  // for Flush
  // Guarded by mu.
  std::unique_ptr<spdlog::formatter> formatter = std::make_unique<spdlog::pattern_formatter>();
  bool stop = false;
  std::string queue;      // whole lines
  int64_t num_lines = 0;  // in it
  int64_t num_queued = 0;
  int64_t num_done = 0;  // of them
  int64_t num_dropped = 0;
  int64_t num_told = 0;  // of them

  std::string Format(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter->format(message, line);
    return {line.data(), line.size()};
  }
};

QueueSink::QueueSink(int fd, const QueueLimits& limits)
    : state_(std::make_shared<State>(fd, limits)) {
  // Threads inherit what is blocked; SIGPIPE would come of a write that nobody can read any more.
  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGPIPE}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  std::thread([state = state_] { Write(*state); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

QueueSink::~QueueSink() {
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    state_->stop = true;
  }
  state_->wake.notify_one();
}

void QueueSink::log(const spdlog::details::log_msg& message) {
  State& state = *state_;
  {
    std::lock_guard<std::mutex> lock(state.mu);
    const std::string line = state.Format(message);
    if (state.num_lines == state.limits.lines ||
        state.queue.size() + line.size() > state.limits.bytes) {
      ++state.num_dropped;
      return;
    }
    state.queue += line;
    ++state.num_lines;
    ++state.num_queued;
  }
  state.wake.notify_one();
}

void QueueSink::set_pattern(const std::string& pattern) {
  set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern));
}

void QueueSink::set_formatter(std::unique_ptr<spdlog::formatter> formatter) {
  std::lock_guard<std::mutex> lock(state_->mu);
  state_->formatter = std::move(formatter);
}

bool QueueSink::Flush(std::chrono::milliseconds patience) {
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mu);
  return state.written.wait_for(
      lock, patience, [&state, last = state.num_queued] { return state.num_done >= last; });
}

int64_t QueueSink::num_dropped() const {
  std::lock_guard<std::mutex> lock(state_->mu);
  return state_->num_dropped;
}

void QueueSink::Write(State& state) {
  pthread_setname_np(pthread_self(), "quire-log");
  std::unique_lock<std::mutex> lock(state.mu);
  while (true) {
    state.wake.wait(lock, [&state] { return state.stop || !state.queue.empty(); });
    if (state.queue.empty()) return;
    std::string text = std::exchange(state.queue, "");
    const int64_t num_lines = std::exchange(state.num_lines, 0);
    const int64_t num_untold = state.num_dropped - state.num_told;
    if (num_untold > 0) {
      const std::string words =
          absl::StrCat(num_untold, " lines were not written: stderr was not read, or failed");
      text += state.Format(spdlog::details::log_msg("quire", spdlog::level::warn, words));
    }
    lock.unlock();
    const bool is_written = WriteAll(state.fd, text);
    lock.lock();
    if (is_written) {
      state.num_told += num_untold;
    } else {
      state.num_dropped += num_lines;
    }
    state.num_done += num_lines;
    state.written.notify_all();
  }
}

}  // namespace quire::cli
