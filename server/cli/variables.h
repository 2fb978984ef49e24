#ifndef QUIRE_SERVER_CLI_VARIABLES_H_
#define QUIRE_SERVER_CLI_VARIABLES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/cli/command.h"

namespace quire::cli {

// The variables of an environment whose names begin with QUIRE_.
using Variables = std::map<std::string, std::string>;
Variables QuireVariables(const char* const* environment);

// "max-num-seqs" -> "QUIRE_MAX_NUM_SEQS".
std::string VariableOf(absl::string_view key);

// Every variable that some command knows, so that what is set for a server does not stop another
// command beside it, and those that are read elsewhere.
std::set<std::string> KnownVariables(const std::vector<Command>& commands);

// Fails at a variable that is not known; the message names it and the nearest that is. Those that
// Kubernetes sets for a Service whose name begins with "quire" are let through.
absl::Status CheckVariables(const Variables& variables, const std::set<std::string>& known);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_VARIABLES_H_
