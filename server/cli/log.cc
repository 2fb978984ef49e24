#include "server/cli/log.h"

#include <memory>
#include <unistd.h>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "server/cli/report.h"

namespace quire::cli {
namespace {

// The message as a JSON string, quotes included.
class JsonString : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text =
        OneLine(Json(std::string(message.payload.data(), message.payload.size())));
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonString>();
  }
};

std::shared_ptr<spdlog::logger> NewLogger() {
  auto logger = std::make_shared<spdlog::logger>(
      "quire", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->flush_on(spdlog::level::trace);
  return logger;
}

}  // namespace

void LogAsServer() {
  std::shared_ptr<spdlog::logger> logger = NewLogger();
  if (isatty(STDERR_FILENO)) {
    logger->set_pattern("%H:%M:%S.%e %^%l%$ %v");
  } else {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<JsonString>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%*})");
    logger->set_formatter(std::move(formatter));
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
