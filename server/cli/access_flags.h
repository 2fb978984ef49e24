#ifndef QUIRE_SERVER_CLI_ACCESS_FLAGS_H_
#define QUIRE_SERVER_CLI_ACCESS_FLAGS_H_

#include <vector>

#include "server/cli/flag.h"
#include "server/server_config.h"

namespace quire::cli {

// Who may reach a server, and how they say who they are: TLS, tokens, the port for administration.
std::vector<Flag> AccessFlags(ServerConfig* config);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_ACCESS_FLAGS_H_
