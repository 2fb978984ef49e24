#ifndef QUIRE_SERVER_CLI_LISTEN_FLAGS_H_
#define QUIRE_SERVER_CLI_LISTEN_FLAGS_H_

#include "server/cli/flag.h"
#include "server/server_config.h"

namespace quire::cli {

// Of a server of the command line; a ServerConfig has none.
inline constexpr char kDefaultMetricsListen[] = "127.0.0.1:9400";

// Flags for where it listens.
Flag ListenFlag(ServerConfig* config);
Flag MetricsListenFlag(ServerConfig* config);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_LISTEN_FLAGS_H_
