#include "server/cli/client.h"

#include <chrono>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <grpcpp/grpcpp.h>

#include "quire/v1/generation.grpc.pb.h"
#include "server/cli/channel.h"

namespace quire::cli {
namespace {

constexpr std::chrono::seconds kConnectTimeout(10);

class GrpcClient : public Client {
 public:
  explicit GrpcClient(ServerChannel channel)
      : channel_(std::move(channel)), stub_(v1::GenerationService::NewStub(channel_.channel)) {}

  std::optional<Failure> Generate(const v1::GenerateRequest& request,
                                  const OnEvent& on_event) override {
    grpc::ClientContext context;
    channel_.Authorize(&context);
    {
      absl::MutexLock lock(&mutex_);
      live_.insert(&context);
    }
    auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse event;
    bool wanted = true;
    while (reader->Read(&event)) {
      if (wanted && !on_event(event)) {
        wanted = false;
        context.TryCancel();
      }
    }
    const grpc::Status status = reader->Finish();
    {
      absl::MutexLock lock(&mutex_);
      live_.erase(&context);
    }
    if (status.ok()) return std::nullopt;
    return FailureOf(status);
  }

  void CancelAll() override {
    absl::MutexLock lock(&mutex_);
    for (grpc::ClientContext* context : live_) context->TryCancel();
  }

 private:
  const ServerChannel channel_;
  const std::unique_ptr<v1::GenerationService::Stub> stub_;
  absl::Mutex mutex_;
  absl::flat_hash_set<grpc::ClientContext*> live_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

Failure FailureOf(const grpc::Status& status) {
  Failure failure{.message = status.error_message()};
  // The numbers are the same; absl knows their names.
  failure.code = absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()));
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return failure;
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (!detail.UnpackTo(&info)) continue;
    failure.reason = info.reason();
    failure.metadata = {info.metadata().begin(), info.metadata().end()};
  }
  // Whoever shows it says the reason too.
  const std::string prefix = failure.reason + ": ";
  if (absl::StartsWith(failure.message, prefix)) failure.message.erase(0, prefix.size());
  if (failure.reason == "UNAUTHENTICATED") {
    failure.message += "; give --token-file FILE, or QUIRE_TOKEN_FILE";
  }
  return failure;
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        const ChannelOptions& options) {
  absl::StatusOr<ServerChannel> opened = OpenChannel(address, options);
  if (!opened.ok()) return opened.status();
  grpc::Channel& channel = *opened->channel;
  const auto deadline = std::chrono::system_clock::now() + kConnectTimeout;
  grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
  while (state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING) {
    if (!channel.WaitForStateChange(state, deadline)) break;
    state = channel.GetState(true);
  }
  if (state == GRPC_CHANNEL_READY) return std::make_unique<GrpcClient>(*std::move(opened));
  // gRPC does not tell who did not understand whom.
  const char* const hint = options.tls_ca.empty()
                               ? "; one that speaks TLS needs --tls-ca"
                               : " over TLS; its certificate must be by --tls-ca, and for that "
                                 "name, or --tls-server-name";
  return absl::UnavailableError(absl::StrCat(
      "no server answers at ", address, hint,
      ". Start one with `quire serve MODEL`, name another with --address, or give --model PATH to "
      "run without one"));
}

ExitCode ExitCodeOf(const Failure& failure) {
  const bool from_transport = failure.code == "UNAVAILABLE" && failure.reason.empty();
  return from_transport ? ExitCode::kUnreachable : ExitCode::kRefused;
}

}  // namespace quire::cli
