#ifndef QUIRE_SERVER_SERVER_H_
#define QUIRE_SERVER_SERVER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "engine/engine.h"
#include "server/server_config.h"

namespace quire {

class GrpcEndpoint;
class HttpListener;
class ModelText;
class ServerCore;

// Server serves one model over gRPC. It owns the port, the engine and the text of the model.
// server/README.md tells which threads there are and what a stream lives through.
//
// States, in this order: open (port open, calls are answered MODEL_LOADING, health NOT_SERVING),
// serving, draining (calls are answered DRAINING), closed. It reads no signals, flags or
// environment: the command line does.
//
// Threads: Drain may be called from any thread, but not while LoadModel or Serve runs; the rest
// from one, unless it says otherwise. Nothing that a client sends ends the process.
class Server {
 public:
  // Opens the port, and those for metrics and administration. FAILED_PRECONDITION where an address
  // is not host:port, a file of TLS or tokens is wrong, or what is asked of a listener cannot be
  // had; UNAVAILABLE where an address cannot be bound. The message names it.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config);
  // Refuses what Start and LoadModel would refuse, but opens no port and loads no weights.
  static absl::StatusOr<ModelInfo> Check(const ServerConfig& config);
  // Drains with no delay and no patience, if that was not done.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Loads engine and tokenizer from config.engine.model_path, then serves. Blocks for as long as
  // loading takes. A model without a tokenizer is served with token ids only. On failure the port
  // stays open and calls go on being answered MODEL_LOADING.
  absl::Status LoadModel(const LoadProgress& progress);
  // Serves an engine that is loaded already. `text` may be null: token ids only.
  // REQUIRES: not serving yet.
  void Serve(std::unique_ptr<Engine> engine, std::unique_ptr<ModelText> text);

  // Where it listens.
  int port() const;
  const std::string& address() const;          // "127.0.0.1:50051", with the port that was taken
  const std::string& metrics_address() const;  // of /metrics; empty: there is none
  const std::string& admin_address() const;    // of AdminService; likewise
  // Of the model that is served. REQUIRES: LoadModel or Serve returned.
  const ModelInfo& model_info() const;
  const std::string& served_model_name() const;
  SchedulerStats stats() const;

  // Reads the files of tokens and of TLS again. Not OK: one of them is wrong, and what it was for
  // stays as it was. Any thread.
  absl::Status ReloadAccess();

  struct DrainOptions {
    int64_t delay_ms = 0;    // readiness is off, but calls are still accepted
    int64_t timeout_ms = 0;  // what runs may go on for this long, then it is ended with DRAINING
  };
  struct DrainResult {
    int finished = 0;  // streams that ended by themselves
    int ended = 0;     // streams that were ended with DRAINING, queued ones included
  };
  // Readiness goes off; after the delay new calls and those still in the queue get DRAINING; the
  // running ones go on until the timeout. Then the port is closed and the engine ends. Blocks.
  // A second call waits for the first and returns its result.
  DrainResult Drain(const DrainOptions& options);

 private:
  explicit Server(const ServerConfig& config);

  std::unique_ptr<ServerCore> core_;
  std::unique_ptr<GrpcEndpoint> endpoint_;  // uses core_
  std::unique_ptr<HttpListener> http_;      // likewise; null: off, or drained
  std::string metrics_address_;
  std::unique_ptr<GrpcEndpoint> admin_;  // uses core_; null: off
  std::string admin_address_;
  std::mutex drain_mu_;                      // held for as long as the drain takes
  std::optional<DrainResult> drain_result_;  // guarded by drain_mu_
};

}  // namespace quire

#endif  // QUIRE_SERVER_SERVER_H_
