#ifndef QUIRE_SERVER_CLI_REQUEST_FLAGS_H_
#define QUIRE_SERVER_CLI_REQUEST_FLAGS_H_

#include <vector>

#include "quire/v1/generation.pb.h"
#include "server/cli/command.h"

namespace quire::cli {

// Flags for what a generation may ask, named as the fields of the API. What is not given stays
// unset in `request`, so that the server's defaults hold.
std::vector<Flag> RequestFlags(v1::GenerateRequest* request);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_REQUEST_FLAGS_H_
