#ifndef QUIRE_SERVER_CLI_COMMAND_LINE_H_
#define QUIRE_SERVER_CLI_COMMAND_LINE_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "server/cli/command.h"
#include "server/cli/variables.h"

namespace quire::cli {

// What a command's flags are set from.
struct Given {
  std::vector<std::string> args;  // what follows the command's name
  Variables variables;
  std::set<std::string> known_variables;
};

// Sets the command's flags: each from the command line, else from the environment, else from the
// file of --config, else it keeps its default (server/cli/README.md). Returns nothing when the
// command shall run. Otherwise returns the exit code: help or the configuration was asked and is
// printed, or something is wrong and stderr says what, where, and where help is.
std::optional<ExitCode> SetFlags(const Command& command, const Given& given);

// The same without a word, for a table that was set before and a file that may have changed.
// REQUIRES: SetFlags returned nothing for the same `given`.
absl::Status SetFlagsAgain(const Command& command, const Given& given);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_COMMAND_LINE_H_
