#ifndef QUIRE_SERVER_CLI_LOG_H_
#define QUIRE_SERVER_CLI_LOG_H_

#include <memory>
#include <vector>

#include "server/cli/flag.h"
#include "server/cli/queue_sink.h"

namespace quire::cli {

// From all to least.
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };
enum class LogFormat {
  kAuto,  // text on a terminal, else JSON
  kText,
  kJson,  // one object a line: {"time", "level", "message"} and fields (server/log_fields.h)
};

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kAuto;
};

// --log-level and --log-format.
std::vector<Flag> LogFlags(LogOptions* options);

// Sends the log of a server to stderr, by a sink that its last words have to be flushed out of.
std::shared_ptr<QueueSink> LogAsServer(const LogOptions& options);

// For commands whose log nobody asked for: warnings only, as lines "quire: ...".
void LogAsCommand();

// Any thread, once it is set which log there is.
void SetLogLevel(LogLevel level);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_LOG_H_
