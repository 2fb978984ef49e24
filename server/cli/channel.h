#ifndef QUIRE_SERVER_CLI_CHANNEL_H_
#define QUIRE_SERVER_CLI_CHANNEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "server/cli/flag.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace quire::cli {

// How to reach a server beside its address. Files are PEM.
struct ChannelOptions {
  std::string tls_ca = "";  // whose servers are believed; "system": the machine's; empty: no TLS
  std::string tls_server_name = "";  // in the server's certificate, instead of the address's host
  std::string tls_client_cert = "";  // for a server with --tls-client-ca
  std::string tls_client_key = "";
  std::string token_file = "";  // the bearer token, and white space around it; empty: none
  bool allow_plaintext_auth = false;
  // Not one that other channels to the same address use too. No flag.
  bool own_connection = false;
};

// Those that begin with --tls; all.
std::vector<Flag> TlsFlags(ChannelOptions* options);
std::vector<Flag> ChannelFlags(ChannelOptions* options);

// A channel, not connected yet, and what each call over it says of its caller.
struct ServerChannel {
  std::shared_ptr<grpc::Channel> channel;
  std::string authorization;  // empty: nothing

  void Authorize(grpc::ClientContext* context) const;
};

// INVALID_ARGUMENT: a file that cannot be read, options that contradict each other, or a token that
// would cross a network in plaintext.
absl::StatusOr<ServerChannel> OpenChannel(const std::string& address,
                                          const ChannelOptions& options);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_CHANNEL_H_
