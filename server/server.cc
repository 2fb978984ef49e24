#include "server/server.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/access_control.h"
#include "server/grpc_endpoint.h"
#include "server/http_listener.h"
#include "server/operator_pages.h"
#include "server/server_core.h"

namespace quire {
namespace {

// For what ended streams still have to say to their clients.
constexpr int64_t kFlushMs = 2000;

}  // namespace

Server::Server(const ServerConfig& config) : core_(std::make_unique<ServerCore>(config)) {}

Server::~Server() { Drain({}); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config) {
  if (absl::Status status = CheckListeners(config); !status.ok()) return status;
  std::unique_ptr<Server> server(new Server(config));
  if (absl::Status status = server->ReloadAccess(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<GrpcEndpoint>> endpoint = GrpcEndpoint::Open(*server->core_);
  if (!endpoint.ok()) return endpoint.status();
  server->endpoint_ = *std::move(endpoint);
  if (!config.admin_listen.empty()) {
    endpoint = GrpcEndpoint::OpenAdmin(*server->core_);
    if (!endpoint.ok()) return endpoint.status();
    server->admin_ = *std::move(endpoint);
    server->admin_address_ = server->admin_->address();
  }
  if (!config.metrics_listen.empty()) {
    absl::StatusOr<std::unique_ptr<HttpListener>> http = HttpListener::Open(
        "--metrics-listen", config.metrics_listen,
        [&core = *server->core_](absl::string_view path) { return MakeOperatorPage(core, path); });
    if (!http.ok()) return http.status();
    server->http_ = *std::move(http);
    server->metrics_address_ = server->http_->address();
  }
  return server;
}

void Server::Serve(std::unique_ptr<Engine> engine, std::unique_ptr<ModelText> text) {
  core_->Serve(std::move(engine), std::move(text));
}

int Server::port() const { return endpoint_->port(); }
const std::string& Server::address() const { return endpoint_->address(); }
const std::string& Server::metrics_address() const { return metrics_address_; }
const std::string& Server::admin_address() const { return admin_address_; }
const ModelInfo& Server::model_info() const { return core_->model()->info; }
const std::string& Server::served_model_name() const { return core_->model()->name; }
SchedulerStats Server::stats() const { return core_->model()->engine->Stats(); }

absl::Status Server::ReloadAccess() {
  // Each is taken up, or told, for itself.
  absl::Status tokens = core_->access().Load();
  absl::Status tls = core_->tls().Load();
  if (tokens.ok() || tls.ok()) return tokens.ok() ? tls : tokens;
  return absl::FailedPreconditionError(absl::StrCat(tokens.message(), "; ", tls.message()));
}

Server::DrainResult Server::Drain(const DrainOptions& options) {
  std::lock_guard<std::mutex> lock(drain_mu_);
  if (drain_result_) return *drain_result_;
  DrainResult result;
  core_->StopBeingReady();
  std::this_thread::sleep_for(std::chrono::milliseconds(options.delay_ms));
  const int num_before = core_->num_generations();
  core_->StopAccepting();
  if (core_->WaitForGenerations(options.timeout_ms) > 0) {
    core_->EndGenerations();
    core_->WaitForGenerations(kFlushMs);
  }
  result.ended = core_->num_drained();
  result.finished = std::max(num_before - result.ended, 0);
  core_->health().Close();
  if (endpoint_ != nullptr) endpoint_->Shutdown(kFlushMs);
  if (admin_ != nullptr) admin_->Shutdown(kFlushMs);
  http_.reset();  // its pages look at the engine
  core_->Close();
  drain_result_ = result;
  return result;
}

}  // namespace quire
