#ifndef QUIRE_SERVER_CLI_CHANNEL_H_
#define QUIRE_SERVER_CLI_CHANNEL_H_

#include <memory>
#include <string>

namespace grpc {
class Channel;
}  // namespace grpc

namespace quire::cli {

// A channel to a server, not connected yet.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_CHANNEL_H_
