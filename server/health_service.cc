// grpc.health.v1.Health over HealthBoard. Our own, because gRPC's is not seen by reflection.
#include <chrono>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"

#include "server/call_origin.h"
#include "server/errors.h"
#include "server/grpc_endpoint.h"
#include "server/grpc_status.h"
#include "server/server_core.h"

namespace quire {
namespace {

using grpc::CallbackServerContext;
using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthCheckResponse::ServingStatus StatusOf(std::optional<bool> serving) {
  if (!serving) return HealthCheckResponse::SERVICE_UNKNOWN;
  return *serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

// Writes the newest state whenever it differs from what was written last.
class WatchReactor final : public grpc::ServerWriteReactor<HealthCheckResponse>,
                           public HealthBoard::Watcher {
 public:
  WatchReactor(ServerCore& core, const CallbackServerContext& context, std::string name)
      : board_(core.health()), name_(std::move(name)) {
    if (board_.Add(this)) return;
    const std::string limit = absl::StrCat(HealthBoard::kMaxWatchers);
    const absl::Status status =
        MakeError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
                  absl::StrCat("at most ", limit, " watches may be open"), {{"limit", limit}});
    core.OnCallEnded("Watch", OriginOf(context), status, std::chrono::steady_clock::now());
    std::lock_guard<std::mutex> lock(mu_);
    FinishLocked(status);
  }

  void OnHealthChanged(bool ready, bool alive) override {
    std::lock_guard<std::mutex> lock(mu_);
    wanted_ = StatusOf(HealthBoard::Pick(name_, ready, alive));
    WriteLocked();
  }
  void OnWriteDone(bool ok) override {
    std::lock_guard<std::mutex> lock(mu_);
    writing_ = false;
    if (ok) WriteLocked();
  }
  // A watch ends when the client leaves or the server closes, never by itself.
  void OnHealthClosed() override {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
    WriteLocked();
  }
  void OnCancel() override {
    std::lock_guard<std::mutex> lock(mu_);
    FinishLocked(StatusOfEnd({.reason = EndReason::kCancelled}));
  }
  void OnDone() override {
    board_.Remove(this);
    delete this;
  }

 private:
  void WriteLocked() {
    if (writing_ || finished_) return;
    if (wanted_ == told_) {
      if (closed_) FinishLocked(StatusOfEnd({.reason = EndReason::kDraining}));
      return;
    }
    writing_ = true;
    told_ = wanted_;
    response_.set_status(static_cast<HealthCheckResponse::ServingStatus>(told_));
    StartWrite(&response_);
  }

  void FinishLocked(const absl::Status& status) {
    if (finished_) return;
    finished_ = true;
    Finish(ToGrpcStatus(status));
  }

  HealthBoard& board_;
  const std::string name_;
  std::mutex mu_;  // guards all below
  int wanted_ = -1;
  int told_ = -1;
  bool writing_ = false;
  bool closed_ = false;
  bool finished_ = false;
  HealthCheckResponse response_;
};

class HealthServiceHandler final : public Health::CallbackService {
 public:
  explicit HealthServiceHandler(ServerCore& core) : core_(core) {}

  grpc::ServerUnaryReactor* Check(CallbackServerContext* context, const HealthCheckRequest* request,
                                  HealthCheckResponse* response) override {
    grpc::ServerUnaryReactor* call = context->DefaultReactor();
    const std::optional<bool> serving = core_.health().Get(request->service());
    response->set_status(StatusOf(serving));
    absl::Status status;
    if (!serving) {
      status = MakeError(absl::StatusCode::kNotFound, "NOT_FOUND",
                         "known are \"\", \"liveness\" and \"quire.v1.GenerationService\"");
      core_.OnCallEnded("Check", OriginOf(*context), status, std::chrono::steady_clock::now());
    }
    call->Finish(ToGrpcStatus(status));
    return call;
  }

  grpc::ServerWriteReactor<HealthCheckResponse>* Watch(CallbackServerContext* context,
                                                       const HealthCheckRequest* request) override {
    return new WatchReactor(core_, *context, request->service());
  }

 private:
  ServerCore& core_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeHealthService(ServerCore& core) {
  return std::make_unique<HealthServiceHandler>(core);
}

}  // namespace quire
