#include "server/cli/log.h"

#include <memory>
#include <unistd.h>

#include "absl/strings/string_view.h"
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "server/cli/log_line.h"
#include "server/cli/repeat_sink.h"

namespace quire::cli {
namespace {

// The flag %* of patterns: the line as `form` has it.
class LineFlag : public spdlog::custom_flag_formatter {
 public:
  using Form = std::string (*)(absl::string_view line);
  explicit LineFlag(Form form) : form_(form) {}

  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = form_({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LineFlag>(form_);
  }

 private:
  const Form form_;
};

std::unique_ptr<spdlog::pattern_formatter> NewFormatter(LineFlag::Form form, const char* pattern) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<LineFlag>('*', form).set_pattern(pattern);
  return formatter;
}

std::shared_ptr<spdlog::logger> NewLogger() {
  auto logger = std::make_shared<spdlog::logger>(
      "quire",
      std::make_shared<RepeatSink>(std::make_shared<spdlog::sinks::stderr_color_sink_mt>()));
  logger->flush_on(spdlog::level::trace);
  return logger;
}

}  // namespace

void LogAsServer() {
  std::shared_ptr<spdlog::logger> logger = NewLogger();
  if (isatty(STDERR_FILENO)) {
    logger->set_formatter(NewFormatter(&TextOfLine, "%H:%M:%S.%e %^%l%$ %*"));
  } else {
    logger->set_formatter(
        NewFormatter(&JsonOfLine, R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%*})"));
  }
  spdlog::set_default_logger(std::move(logger));
}

void LogAsCommand() {
  std::shared_ptr<spdlog::logger> logger = NewLogger();
  logger->set_pattern("quire: %v");
  logger->set_level(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace quire::cli
