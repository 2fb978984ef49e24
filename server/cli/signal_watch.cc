#include "server/cli/signal_watch.h"

#include <cerrno>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "kernels/check.h"
#include "server/cli/exit_code.h"

namespace quire::cli {

SignalWatch::SignalWatch(std::initializer_list<int> signals,
                         std::function<void(int signal)> on_signal)
    : on_signal_(std::move(on_signal)) {
  sigemptyset(&signals_);
  for (int signal : signals) sigaddset(&signals_, signal);
  QUIRE_CHECK(pthread_sigmask(SIG_BLOCK, &signals_, &signals_before_) == 0, "block signals");
  signal_fd_ = signalfd(-1, &signals_, SFD_CLOEXEC);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  QUIRE_CHECK(signal_fd_ >= 0 && stop_fd_ >= 0, "out of file descriptors");
  thread_ = std::thread([this] { Watch(); });
}

SignalWatch::~SignalWatch() {
  QUIRE_CHECK(eventfd_write(stop_fd_, 1) == 0, "wake the thread");
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
  pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

void SignalWatch::Watch() {
  pthread_setname_np(pthread_self(), "quire-signals");
  while (true) {
    pollfd fds[] = {{signal_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    if (fds[0].revents == 0) continue;
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof(info)) != ssize_t{sizeof(info)}) continue;
    on_signal_(static_cast<int>(info.ssi_signo));
  }
}

InterruptHandler::InterruptHandler()
    : watch_({SIGINT}, [this](int) {
        absl::MutexLock lock(&mutex_);
        if (!on_interrupt_) _exit(static_cast<int>(ExitCode::kInterrupted));
        on_interrupt_();
      }) {}

void InterruptHandler::Set(std::function<void()> on_interrupt) {
  absl::MutexLock lock(&mutex_);
  on_interrupt_ = std::move(on_interrupt);
}

}  // namespace quire::cli
