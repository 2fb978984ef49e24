#include "server/grpc_endpoint.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "spdlog/spdlog.h"
#include <grpc/compression.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "server/server_core.h"
#include "server/tls_credentials.h"

namespace quire {
namespace {

constexpr int kSecondMs = 1000;
constexpr size_t kMaxLogBytes = 200;  // of a message of gRPC's

// Of one call's headers, for all calls. Over it gRPC 1.51 closes the connection, with all streams
// that others may have on it; what a request may have is max_metadata_bytes, and less.
constexpr int kMaxHeaderBytes = 64 << 10;

// gRPC hands calls to its two threads in the order of their arrival, health checks too. So a
// connection may bring no more at once than keeps the engine busy; its client holds the rest back.
int MaxStreamsOfConnection(const ServerConfig& config) {
  return std::min(config.limits.max_concurrent_requests,
                  std::max(128, 2 * config.engine.max_num_seqs));
}

// Of a message of gRPC's, what clients have no words in: it ends in what they sent.
absl::string_view WithoutValues(absl::string_view message) {
  for (const absl::string_view mark : {"value=", "raw_bytes"}) {
    const size_t end = message.find(mark);
    if (end != absl::string_view::npos) message = message.substr(0, end + mark.size());
  }
  return message.substr(0, kMaxLogBytes);
}

// gRPC's own log, in the form of ours. What it calls errors is what clients do, so none of it is
// above debug but what it says of listening: after a failure to accept it never accepts again.
void Log(gpr_log_func_args* args) {
  const bool is_ours =
      absl::StrContains(args->file, "tcp_server") && args->severity == GPR_LOG_SEVERITY_ERROR;
  const auto level = is_ours ? spdlog::level::warn : spdlog::level::debug;
  if (!spdlog::should_log(level)) return;
  spdlog::log(level, "grpc: {}", std::string(WithoutValues(args->message)));
}

void SetConnectionLimits(const ServerConfig& config, grpc::ServerBuilder& builder) {
  const ServerLimits& limits = config.limits;
  builder.SetMaxReceiveMessageSize(limits.max_message_bytes);
  // That limit is on a message as it was sent: a compressed one could be a thousand times larger.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  // Of gRPC's own buffers: messages that are never completed do not come as far as Admission.
  grpc::ResourceQuota quota("quire");
  quota.Resize(2 * static_cast<size_t>(limits.max_pending_bytes));
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxHeaderBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30 * kSecondMs);
  // A healthy client that is not inside a read answers pings only every 5 s or so.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20 * kSecondMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // The server's own pings carry no data either: without this it stops after two.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5 * kSecondMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 15 * 60 * kSecondMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, MaxStreamsOfConnection(config));
  // Two servers must not share a port unseen.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

// A process that links reflection has it on all of its servers, unless it is taken away again.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    const std::string name = grpc::reflection::ProtoServerReflectionPlugin().name();
    std::erase_if(*plugins, [&name](const auto& plugin) { return plugin->name() == name; });
  }
};

}  // namespace

std::string GrpcVersion() { return grpc::Version(); }

absl::StatusOr<std::unique_ptr<GrpcEndpoint>> GrpcEndpoint::Open(ServerCore& core) {
  const ServerConfig& config = core.config();
  Services services;
  services.push_back(MakeGenerationService(core));
  services.push_back(MakeTokenizerService(core));
  services.push_back(MakeModelService(core));
  services.push_back(MakeHealthService(core));
  const bool reflects = config.reflection && config.access_tokens.empty();
  return Listen(core, "--listen", config.listen, std::move(services), reflects);
}

absl::StatusOr<std::unique_ptr<GrpcEndpoint>> GrpcEndpoint::OpenAdmin(ServerCore& core) {
  const ServerConfig& config = core.config();
  Services services;
  services.push_back(MakeAdminService(core));
  return Listen(core, "--admin-listen", config.admin_listen, std::move(services),
                /*reflects=*/false);
}

absl::StatusOr<std::unique_ptr<GrpcEndpoint>> GrpcEndpoint::Listen(ServerCore& core,
                                                                   const char* flag,
                                                                   const std::string& listen,
                                                                   Services services,
                                                                   bool reflects) {
  gpr_set_log_function(&Log);
  std::shared_ptr<grpc::ServerCredentials> credentials =
      core.tls().is_on() ? TlsCredentials(core.tls()) : grpc::InsecureServerCredentials();
  std::unique_ptr<GrpcEndpoint> endpoint(
      new GrpcEndpoint(std::move(services), std::move(credentials)));
  grpc::ServerBuilder builder;
  SetConnectionLimits(core.config(), builder);
  if (!reflects) builder.SetOption(std::make_unique<WithoutReflection>());
  for (const auto& service : endpoint->services_) builder.RegisterService(service.get());
  builder.AddListeningPort(listen, endpoint->credentials_, &endpoint->port_);
  endpoint->server_ = builder.BuildAndStart();
  if (endpoint->server_ == nullptr || endpoint->port_ == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen,
                     ": the address is in use or not of this machine; choose another with ", flag,
                     " (port 0: any free one)"));
  }
  endpoint->address_ = absl::StrCat(listen.substr(0, listen.rfind(':')), ":", endpoint->port_);
  return endpoint;
}

GrpcEndpoint::GrpcEndpoint(Services services, std::shared_ptr<grpc::ServerCredentials> credentials)
    : services_(std::move(services)), credentials_(std::move(credentials)) {}

GrpcEndpoint::~GrpcEndpoint() = default;

void GrpcEndpoint::Shutdown(int64_t timeout_ms) {
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
  server_->Wait();
}

}  // namespace quire
