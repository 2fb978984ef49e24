#ifndef QUIRE_SERVER_CLI_REPEAT_SINK_H_
#define QUIRE_SERVER_CLI_REPEAT_SINK_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <spdlog/details/log_msg.h>
#include <spdlog/sinks/sink.h>

namespace quire::cli {

// Keeps a fault that repeats from filling the log: of warnings and errors that are the same but for
// numbers, the first is passed on at once, and then one in kWindow, with the count of those that
// were not. Counts that nobody told are told with the next line of any kind after their window, or
// at the end. Lines of other levels pass.
//
// Remembers kMaxKinds kinds at most, by hash; past that the oldest is forgotten, and so told again.
// Any thread.
class RepeatSink final : public spdlog::sinks::sink {
 public:
  static constexpr std::chrono::seconds kWindow{10};
  static constexpr size_t kMaxKinds = 64;

  explicit RepeatSink(std::shared_ptr<spdlog::sinks::sink> next);
  ~RepeatSink() override;

  void log(const spdlog::details::log_msg& message) override;
  void flush() override { next_->flush(); }
  void set_pattern(const std::string& pattern) override { next_->set_pattern(pattern); }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    next_->set_formatter(std::move(formatter));
  }

 private:
  struct Kind {
    size_t hash = 0;
    spdlog::log_clock::time_point told_at = {};
    spdlog::level::level_enum level = spdlog::level::warn;
    std::string text = "";  // of the first, cut
    int64_t num_untold = 0;
  };

  // Also forgets them. REQUIRES: mu_ is held.
  void TellCountsBefore(spdlog::log_clock::time_point told_before);
  void TellCount(const Kind& kind);

  const std::shared_ptr<spdlog::sinks::sink> next_;
  std::mutex mu_;
  std::vector<Kind> kinds_;  // guarded by mu_; those told first come first
};

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_REPEAT_SINK_H_
