#ifndef QUIRE_SERVER_GRPC_ENDPOINT_H_
#define QUIRE_SERVER_GRPC_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace grpc {
class Server;
class ServerCredentials;
class Service;
}  // namespace grpc

namespace quire {

class ServerCore;

// Each makes one service over the core, which must outlive it.
std::unique_ptr<grpc::Service> MakeGenerationService(ServerCore& core);
std::unique_ptr<grpc::Service> MakeTokenizerService(ServerCore& core);
std::unique_ptr<grpc::Service> MakeModelService(ServerCore& core);
std::unique_ptr<grpc::Service> MakeHealthService(ServerCore& core);
std::unique_ptr<grpc::Service> MakeAdminService(ServerCore& core);

// Of the library that is linked: "1.51.1".
std::string GrpcVersion();

// An open port with services behind it; nothing of gRPC is seen outside. Owned by Server.
class GrpcEndpoint {
 public:
  // Opens config().listen with the services for clients. Fails where the address cannot be used,
  // and names it.
  static absl::StatusOr<std::unique_ptr<GrpcEndpoint>> Open(ServerCore& core);
  // Likewise config().admin_listen, with AdminService.
  static absl::StatusOr<std::unique_ptr<GrpcEndpoint>> OpenAdmin(ServerCore& core);
  ~GrpcEndpoint();

  int port() const { return port_; }
  const std::string& address() const { return address_; }

  // Refuses new calls, gives those in progress `timeout_ms`, cancels the rest, and waits until
  // all are over. Call once.
  void Shutdown(int64_t timeout_ms);

 private:
  using Services = std::vector<std::unique_ptr<grpc::Service>>;

  static absl::StatusOr<std::unique_ptr<GrpcEndpoint>> Listen(ServerCore& core, const char* flag,
                                                              const std::string& listen,
                                                              Services services, bool reflects);
  GrpcEndpoint(Services services, std::shared_ptr<grpc::ServerCredentials> credentials);

  const Services services_;
  const std::shared_ptr<grpc::ServerCredentials> credentials_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::string address_;
};

}  // namespace quire

#endif  // QUIRE_SERVER_GRPC_ENDPOINT_H_
