#include "server/cli/log.h"

#include <memory>
#include <string>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include <spdlog/details/os.h>
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

// The flag %& of patterns: the level, in its colour.
class LevelFlag : public spdlog::custom_flag_formatter {
 public:
  explicit LevelFlag(bool has_colours) : has_colours_(has_colours) {}

  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const spdlog::string_view_t name = spdlog::level::to_string_view(message.level);
    const std::string text =
        has_colours_ ? absl::StrCat("\x1b[", ColourOf(message.level), "m",
                                    absl::string_view(name.data(), name.size()), "\x1b[m")
                     : std::string(name.data(), name.size());
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LevelFlag>(has_colours_);
  }

 private:
  static const char* ColourOf(spdlog::level::level_enum level) {
    if (level >= spdlog::level::err) return "1;31";
    if (level == spdlog::level::warn) return "1;33";
    return level == spdlog::level::info ? "32" : "36";
  }

  const bool has_colours_;
};

std::unique_ptr<spdlog::formatter> NewFormatter(LogFormat format) {
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const bool is_text = format == LogFormat::kAuto ? is_terminal : format == LogFormat::kText;
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<LineFlag>('*', is_text ? &TextOfLine : &JsonOfLine)
      .add_flag<LevelFlag>('&', is_terminal && spdlog::details::os::is_color_terminal())
      .set_pattern(is_text ? "%H:%M:%S.%e %& %*"
                           : R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%*})");
  return formatter;
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

std::shared_ptr<QueueSink> LogAsServer(const LogOptions& options) {
  auto sink = std::make_shared<QueueSink>(STDERR_FILENO);
  sink->set_formatter(NewFormatter(options.format));
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("quire", sink));
  SetLogLevel(options.level);
  return sink;
}

void LogAsCommand() {
  auto logger = std::make_shared<spdlog::logger>(
      "quire", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
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
