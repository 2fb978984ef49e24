#ifndef QUIRE_SERVER_CLI_ENDPOINT_H_
#define QUIRE_SERVER_CLI_ENDPOINT_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/engine_config.h"
#include "server/cli/client.h"
#include "server/cli/command.h"
#include "server/server.h"

namespace quire::cli {

struct EndpointOptions {
  std::string address;
  ChannelOptions channel;  // to that server
  EngineConfig engine;     // of a server of our own; no model_path: there is none
};

// --address and how to reach it, --model and how to run that model.
std::vector<Flag> EndpointFlags(EndpointOptions* options);

// Where a command's requests go: a server that runs, or one of our own that lives as long as the
// Endpoint. Nobody else is meant to find that one: it listens on a free port of the loopback.
class Endpoint {
 public:
  // Connects; loads first, with `--model`. On failure returns what it was and sets `exit_code`;
  // nothing is printed.
  std::optional<Failure> Open(const EndpointOptions& options, ExitCode* exit_code);

  // REQUIRES: Open returned nothing. Any thread.
  Client& client() { return *client_; }
  // Where the server is, for who wants connections of another kind.
  const std::string& address() const { return address_; }
  const ChannelOptions& channel_options() const { return channel_options_; }
  // Of a server of our own; else null.
  const ModelInfo* own_model() const;

 private:
  std::optional<Failure> StartServer(const EngineConfig& config, std::string* address,
                                     ExitCode* exit_code);

  std::string address_;
  ChannelOptions channel_options_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
};

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_ENDPOINT_H_
