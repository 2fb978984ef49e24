#ifndef QUIRE_SERVER_CLI_LIMIT_FLAGS_H_
#define QUIRE_SERVER_CLI_LIMIT_FLAGS_H_

#include <vector>

#include "server/cli/command.h"
#include "server/server_config.h"

namespace quire::cli {

// Flags for what requests may ask and hold; GetModel's limits show them. Together they keep
// Accepted, which repeats all parameters, below the 1 MiB of a message.
std::vector<Flag> LimitFlags(ServerLimits* limits);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_LIMIT_FLAGS_H_
