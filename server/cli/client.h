#ifndef QUIRE_SERVER_CLI_CLIENT_H_
#define QUIRE_SERVER_CLI_CLIENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "quire/v1/generation.pb.h"
#include "server/cli/channel.h"
#include "server/cli/exit_code.h"
#include "server/cli/report.h"

namespace grpc {
class Status;
}  // namespace grpc

namespace quire::cli {

// Takes one event of a generation; false: enough, cancel the rest.
using OnEvent = std::function<bool(const v1::GenerateResponse& event)>;

// The client's side of GenerationService: one connection to one server. It knows calls and
// statuses; what events mean is for its callers.
//
// Any thread; calls may overlap.
class Client {
 public:
  // Waits until the server answers, a connection is refused, or 10 seconds have passed. UNAVAILABLE
  // when there is no server; INVALID_ARGUMENT when the options are wrong (OpenChannel). One line.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address,
                                                         const ChannelOptions& options);

  virtual ~Client() = default;

  // Blocks until the generation is over; `on_event` is called in between, on this thread. Returns
  // nothing when it ended well, otherwise what the server or the transport said.
  virtual std::optional<Failure> Generate(const v1::GenerateRequest& request,
                                          const OnEvent& on_event) = 0;

  // Cancels what is in progress now. Those calls end with the code CANCELLED.
  virtual void CancelAll() = 0;
};

// What a server, or the transport, said of a call. REQUIRES: not OK.
Failure FailureOf(const grpc::Status& status);

// kUnreachable for a failure that no server sent, else kRefused.
ExitCode ExitCodeOf(const Failure& failure);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_CLIENT_H_
