#ifndef QUIRE_SERVER_CLI_BENCH_OPEN_TARGET_H_
#define QUIRE_SERVER_CLI_BENCH_OPEN_TARGET_H_

#include <memory>
#include <optional>

#include "server/cli/bench/options.h"
#include "server/cli/bench/target.h"
#include "server/cli/endpoint.h"

namespace quire::cli::bench {

// A target and what it needs to live.
struct OpenedTarget {
  std::unique_ptr<Endpoint> endpoint;  // null: there is no server
  std::unique_ptr<Target> target;
};

// Loads the model, or finds the server, waiting for it as long as is asked. On failure returns what
// it was and sets `exit_code`; nothing is printed.
std::optional<Failure> OpenTarget(const Options& options, OpenedTarget* opened,
                                  ExitCode* exit_code);

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_OPEN_TARGET_H_
