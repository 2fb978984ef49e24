#ifndef QUIRE_SERVER_CLI_QUEUE_SINK_H_
#define QUIRE_SERVER_CLI_QUEUE_SINK_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <spdlog/details/log_msg.h>
#include <spdlog/sinks/sink.h>

namespace quire::cli {

// Of what waits to be written; as much again may be in a write that hangs.
struct QueueLimits {
  int64_t lines = 8192;
  size_t bytes = 4 << 20;
};

// A log that keeps nobody waiting, whoever reads it or does not: lines are queued, and a thread of
// its own writes them to a file descriptor. A line that finds the queue full is dropped and
// counted, as are lines that cannot be written; the next write that works ends in a line that says
// how many those were.
//
// Any thread. The writing thread is waited for by nobody, because its write may hang for good: it
// shares what it uses, and takes no signal that ends or reloads a program. So what is queued when
// the process ends is lost, unless Flush came before.
class QueueSink final : public spdlog::sinks::sink {
 public:
  explicit QueueSink(int fd, const QueueLimits& limits = {});
  // What is queued is still written, if the process lives so long. `fd` must stay open.
  ~QueueSink() override;

  void log(const spdlog::details::log_msg& message) override;
  void flush() override {}
  void set_pattern(const std::string& pattern) override;
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override;

  // Waits until all lines so far are written or dropped. False: not within `patience`.
  bool Flush(std::chrono::milliseconds patience);
  int64_t num_dropped() const;

 private:
  struct State;

  static void Write(State& state);

  const std::shared_ptr<State> state_;
};

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_QUEUE_SINK_H_
