#include "server/cli/log.h"

#include <memory>
#include <unistd.h>

#include "absl/strings/string_view.h"
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "server/cli/log_line.h"

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
      "quire", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->flush_on(spdlog::level::trace);
  return logger;
}

}  // namespace

std::vector<Flag> LogFlags(LogOptions* options) {
  Flag level = ChoiceFlag("--log-level", "LEVEL",
                          "What is logged at least: trace, debug, info, warn or error (default: "
                          "info)",
                          {Choice<LogLevel>{"trace", LogLevel::kTrace},
                           {"debug", LogLevel::kDebug},
                           {"info", LogLevel::kInfo},
                           {"warn", LogLevel::kWarn},
                           {"error", LogLevel::kError}},
                          &options->level);
  level.reloads = true;
  return {level, ChoiceFlag("--log-format", "FORMAT",
                            "text, json, or auto: text on a terminal, else json (default: auto)",
                            {Choice<LogFormat>{"text", LogFormat::kText},
                             {"json", LogFormat::kJson},
                             {"auto", LogFormat::kAuto}},
                            &options->format)};
}

void LogAsServer(const LogOptions& options) {
  std::shared_ptr<spdlog::logger> logger = NewLogger();
  const bool is_text = options.format == LogFormat::kAuto ? isatty(STDERR_FILENO) == 1
                                                          : options.format == LogFormat::kText;
  if (is_text) {
    logger->set_formatter(NewFormatter(&TextOfLine, "%H:%M:%S.%e %^%l%$ %*"));
  } else {
    logger->set_formatter(
        NewFormatter(&JsonOfLine, R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%*})"));
  }
  spdlog::set_default_logger(std::move(logger));
  SetLogLevel(options.level);
}

void LogAsCommand() {
  std::shared_ptr<spdlog::logger> logger = NewLogger();
  logger->set_pattern("quire: %v");
  logger->set_level(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

void SetLogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::set_level(spdlog::level::trace);
    case LogLevel::kDebug:
      return spdlog::set_level(spdlog::level::debug);
    case LogLevel::kInfo:
      return spdlog::set_level(spdlog::level::info);
    case LogLevel::kWarn:
      return spdlog::set_level(spdlog::level::warn);
    case LogLevel::kError:
      return spdlog::set_level(spdlog::level::err);
  }
}

}  // namespace quire::cli
