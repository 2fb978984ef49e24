#ifndef QUIRE_SERVER_CLI_BENCH_GRPC_TARGET_H_
#define QUIRE_SERVER_CLI_BENCH_GRPC_TARGET_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "engine/engine.h"
#include "server/cli/bench/target.h"
#include "server/cli/channel.h"

namespace quire::cli::bench {

// A server, asked as its clients do. One connection for each 100 requests at once, because a server
// bounds the streams of a connection (server/README.md, "Limits").
//
// Built on gRPC's callback interface: a thread for each stream would cost the server, on the same
// cores, more than the rest of the client does.
class GrpcTarget : public Target {
 public:
  // INVALID_ARGUMENT: options that OpenChannel refuses.
  static absl::StatusOr<std::unique_ptr<GrpcTarget>> Open(const std::string& address,
                                                          const ChannelOptions& options);
  ~GrpcTarget() override;

  // Fills info(). Fails with what the server says: UNAVAILABLE while it loads, then ask again.
  absl::Status AskModel();

  // REQUIRES: of this one and the next, AskModel succeeded.
  const TargetInfo& info() const override { return info_; }
  void Start(const BenchRequest& request, std::shared_ptr<Listener> listener) override;
  void CancelAll() override;

  // Of a server whose model this process knows.
  void AddWhatIsKnown(const ModelInfo& model);

 private:
  class Connection;
  class Call;

  GrpcTarget(std::string address, ChannelOptions options);
  // With room for one more stream; opens another one where there is none.
  std::shared_ptr<Connection> FreeConnection();

  const std::string address_;
  const ChannelOptions options_;
  TargetInfo info_;
  std::vector<std::shared_ptr<Connection>> connections_;
};

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_GRPC_TARGET_H_
