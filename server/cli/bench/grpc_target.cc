#include "server/cli/bench/grpc_target.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include <grpcpp/grpcpp.h>

#include "quire/v1/generation.grpc.pb.h"
#include "quire/v1/model.grpc.pb.h"
#include "server/cli/client.h"

namespace quire::cli::bench {
namespace {

constexpr size_t kMaxStreams = 100;

v1::GenerateRequest ToProto(const BenchRequest& request) {
  v1::GenerateRequest asked;
  auto* ids = asked.mutable_token_ids()->mutable_ids();
  ids->Assign(request.prompt_ids.begin(), request.prompt_ids.end());
  v1::GenerationParams& params = *asked.mutable_params();
  params.set_temperature(0);
  params.set_repetition_penalty(1);  // whatever the model's own default is
  params.set_max_tokens(static_cast<uint32_t>(request.new_tokens));
  params.set_ignore_eos(true);
  return asked;
}

// "" where it ended well; the server's reason, or gRPC's code where it was not the server's.
std::string ErrorOf(const grpc::Status& status) {
  if (status.ok()) return "";
  const Failure failure = FailureOf(status);
  return failure.reason.empty() ? failure.code : failure.reason;
}

}  // namespace

// A channel and the calls on it.
class GrpcTarget::Connection {
 public:
  explicit Connection(ServerChannel channel)
      : channel_(std::move(channel)),
        generation_(v1::GenerationService::NewStub(channel_.channel)),
        models_(v1::ModelService::NewStub(channel_.channel)) {}

  v1::GenerationService::Stub& generation() { return *generation_; }
  v1::ModelService::Stub& models() { return *models_; }
  void Authorize(grpc::ClientContext* context) const { channel_.Authorize(context); }

  bool HasRoom() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return live_.size() < kMaxStreams;
  }
  void Add(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    live_.insert(context);
  }
  void Remove(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    live_.erase(context);
  }
  void CancelAll() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    for (grpc::ClientContext* context : live_) context->TryCancel();
  }

 private:
  const ServerChannel channel_;
  const std::unique_ptr<v1::GenerationService::Stub> generation_;
  const std::unique_ptr<v1::ModelService::Stub> models_;
  absl::Mutex mutex_;
  absl::flat_hash_set<grpc::ClientContext*> live_ ABSL_GUARDED_BY(mutex_);
};

// One stream. Deletes itself when it is over.
class GrpcTarget::Call : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Call(std::shared_ptr<Connection> connection, v1::GenerateRequest request,
       std::shared_ptr<Listener> listener)
      : connection_(std::move(connection)),
        request_(std::move(request)),
        listener_(std::move(listener)) {
    connection_->Authorize(&context_);
    connection_->Add(&context_);
    connection_->generation().async()->Generate(&context_, &request_, this);
    StartRead(&event_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const int count = event_.has_delta() ? event_.delta().token_ids_size() : 0;
    if (count > 0) listener_->OnTokens(count);
    StartRead(&event_);
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<Listener> listener = listener_;
    connection_->Remove(&context_);
    delete this;
    // Last: whoever hears of it may end the process.
    listener->OnEnd(ErrorOf(status));
  }

 private:
  const std::shared_ptr<Connection> connection_;
  const v1::GenerateRequest request_;
  const std::shared_ptr<Listener> listener_;
  grpc::ClientContext context_;
  v1::GenerateResponse event_;
};

GrpcTarget::GrpcTarget(std::string address, ChannelOptions options)
    : address_(std::move(address)), options_(std::move(options)) {}

GrpcTarget::~GrpcTarget() = default;

absl::StatusOr<std::unique_ptr<GrpcTarget>> GrpcTarget::Open(const std::string& address,
                                                             const ChannelOptions& options) {
  ChannelOptions own = options;
  own.own_connection = true;
  absl::StatusOr<ServerChannel> channel = OpenChannel(address, own);
  if (!channel.ok()) return channel.status();
  std::unique_ptr<GrpcTarget> target(new GrpcTarget(address, std::move(own)));
  target->connections_.push_back(std::make_shared<Connection>(*std::move(channel)));
  return target;
}

absl::Status GrpcTarget::AskModel() {
  const std::shared_ptr<Connection> connection = FreeConnection();
  grpc::ClientContext context;
  connection->Authorize(&context);
  v1::GetModelResponse model;
  const grpc::Status status = connection->models().GetModel(&context, {}, &model);
  if (!status.ok()) {
    return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
  }
  info_ = {.kind = "grpc",
           .model = model.name(),
           .backend = model.backend(),
           .vocab_size = static_cast<int32_t>(model.vocab_size()),
           .numerics = model.numerics_mode()};
  return absl::OkStatus();
}

void GrpcTarget::AddWhatIsKnown(const ModelInfo& model) {
  info_.weight_bytes = model.weight_bytes;
  info_.num_layer_weights = model.num_layer_weights;
  info_.num_head_weights = model.num_head_weights;
}

std::shared_ptr<GrpcTarget::Connection> GrpcTarget::FreeConnection() {
  for (const std::shared_ptr<Connection>& connection : connections_) {
    if (connection->HasRoom()) return connection;
  }
  absl::StatusOr<ServerChannel> channel = OpenChannel(address_, options_);
  // Its files worked before and do not now: what is open takes the streams as well as it can.
  if (!channel.ok()) return connections_.back();
  return connections_.emplace_back(std::make_shared<Connection>(*std::move(channel)));
}

void GrpcTarget::Start(const BenchRequest& request, std::shared_ptr<Listener> listener) {
  new Call(FreeConnection(), ToProto(request), std::move(listener));
}

void GrpcTarget::CancelAll() {
  for (const std::shared_ptr<Connection>& connection : connections_) connection->CancelAll();
}

}  // namespace quire::cli::bench
