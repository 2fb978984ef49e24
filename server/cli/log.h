#ifndef QUIRE_SERVER_CLI_LOG_H_
#define QUIRE_SERVER_CLI_LOG_H_

namespace quire::cli {

// Sends the log of a server to stderr: text on a terminal, else one JSON object a line
// {"time", "level", "message"}, and the fields of lines that have some (server/log_fields.h).
void LogAsServer();

// For commands whose log nobody asked for: warnings only, as lines "quire: ...".
void LogAsCommand();

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_LOG_H_
