#ifndef QUIRE_SERVER_CLI_COMMAND_LINE_H_
#define QUIRE_SERVER_CLI_COMMAND_LINE_H_

#include <optional>
#include <string>
#include <vector>

#include "server/cli/command.h"

namespace quire::cli {

// Sets the command's flags from `args` (what follows the command's name). Returns nothing when the
// command shall run. Otherwise returns the exit code: help was asked and is printed, or the
// arguments are wrong and stderr says which and where help is.
std::optional<ExitCode> SetFlags(const Command& command, std::vector<std::string> args);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_COMMAND_LINE_H_
