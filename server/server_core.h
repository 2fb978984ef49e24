#ifndef QUIRE_SERVER_SERVER_CORE_H_
#define QUIRE_SERVER_SERVER_CORE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/access_control.h"
#include "server/access_log.h"
#include "server/admission.h"
#include "server/delivery.h"
#include "server/generation.h"
#include "server/health_board.h"
#include "server/metrics.h"
#include "server/server_config.h"
#include "server/serving_model.h"
#include "server/tls_certificates.h"
#include "server/watchdog.h"
#include "server/worker_pool.h"

namespace quire {

// What is the state of the server, and which generations are there? ServerCore holds all that lives
// between the transport (grpc_endpoint.h) and the engine. It knows no gRPC.
//
// States: loading, serving, draining, closed; never back. Any thread, unless said otherwise.
class ServerCore final : public GenerationHost {
 public:
  explicit ServerCore(const ServerConfig& config);
  // REQUIRES: Close was called, and no call is left that uses this.
  ~ServerCore() override;

  // loading -> serving. `text` may be null. Call once.
  void Serve(std::unique_ptr<Engine> engine, std::unique_ptr<ModelText> text);
  // The model, for a new call; or UNAVAILABLE MODEL_LOADING or DRAINING.
  absl::StatusOr<const ServingModel*> ModelForCall() const;
  // The model whatever the state; null while loading.
  const ServingModel* model() const { return model_ptr_.load(); }

  // Who may call, and whether there is room.
  AccessControl& access() { return access_; }
  Admission& admission() { return admission_; }
  TlsCertificates& tls() { return tls_; }

  // A generation of this checked request, in the list. ALREADY_EXISTS where the tenant has one of
  // this id.
  absl::StatusOr<std::shared_ptr<Generation>> AddGeneration(CallOrigin origin,
                                                            v1::GenerateRequest request,
                                                            CallTicket ticket, TimeUs deadline,
                                                            const ServingModel& model,
                                                            GenerationWriter* writer);
  // A call that never was a generation has got its status: counts and logs it.
  void OnCallEnded(const char* method, const CallOrigin& origin, const absl::Status& status,
                   std::chrono::steady_clock::time_point arrived_at);

  // The transport is done with it.
  void OnClosed(const std::shared_ptr<Generation>& generation);
  // The generation of this id and this tenant, if there is one.
  void Abort(absl::string_view tenant, absl::string_view request_id);
  // Those of these ids that are not over, whose ever they are; returns how many there are.
  int AbortOfAnyTenant(const absl::flat_hash_set<std::string>& request_ids);
  // An id that no request has.
  std::string MakeRequestId();

  // Runs a job that tokenises or renders.
  void RunTextJob(std::function<void()> job) { text_workers_.Add(std::move(job)); }

  // Draining, in this order. Readiness goes off:
  void StopBeingReady();
  // New calls are refused, and what is still queued in the engine ends.
  void StopAccepting();
  // Waits until all generations are closed; returns how many are not.
  int WaitForGenerations(int64_t timeout_ms);
  // Ends all that are left, with DRAINING.
  void EndGenerations();
  int num_generations();
  // How many generations ended with DRAINING.
  int num_drained() const { return num_drained_.load(); }
  // Ends threads and engine; one that does not end is the watchdog's. REQUIRES: the transport has
  // ended.
  void Close();

  // GenerationHost.
  void PumpSoon(std::shared_ptr<Generation> generation) override;
  void OnFinished(const Generation& generation, const absl::Status& status) override;
  void OnRecord(const RequestRecord& record) override;
  Metrics& metrics() override { return metrics_; }
  bool refuses_new() const override { return !accepting_.load(); }

  const Metrics& metrics() const { return metrics_; }
  int num_calls() const { return admission_.num_calls(); }
  // For people: why health says no; empty where it says yes.
  std::string WhyNotReady() const;
  std::string WhyNotAlive() const;

  const ServerConfig& config() const { return config_; }
  const std::string& instance_id() const { return instance_id_; }
  HealthBoard& health() { return health_; }

 private:
  // Every now and then: readers that do not read.
  void Tick();
  // Tells the log once.
  void ReportLeak(const Engine& engine);
  void UpdateHealth();
  Watchdog::Hooks WatchdogHooks();
  // Once for each silence of the engine: all that is known, in the log.
  void ReportSilence(TimeUs silence) const;
  std::vector<std::shared_ptr<Generation>> AllGenerations();

  const ServerConfig config_;
  const std::string instance_id_;
  AccessControl access_;
  TlsCertificates tls_;
  Admission admission_;
  Metrics metrics_;
  AccessLog access_log_;
  std::mutex health_mu_;  // held from looking to telling
  HealthBoard health_;
  std::unique_ptr<ServingModel> model_;                   // set once, by Serve
  std::atomic<const ServingModel*> model_ptr_ = nullptr;  // model_, for other threads
  std::atomic<bool> ready_ = true;                        // as far as draining goes
  std::atomic<bool> accepting_ = true;                    // likewise
  std::atomic<bool> alive_ = true;                        // as the watchdog says
  std::atomic<bool> closing_ = false;                     // the engine goes away
  std::atomic<int> num_drained_ = 0;
  std::atomic<uint64_t> next_request_ = 1;

  std::mutex mu_;
  std::condition_variable closed_one_;
  // Guarded by mu_: those whose transport is not done, and those whose id is in use.
  absl::flat_hash_set<std::shared_ptr<Generation>> open_;
  absl::flat_hash_map<std::pair<std::string, std::string>, Generation*> by_id_;  // tenant, id

  std::mutex tick_mu_;
  std::condition_variable tick_wake_;
  bool tick_stop_ = false;  // guarded by tick_mu_
  bool leak_told_ = false;  // ticker only

  // In the order in which they end, last first.
  Delivery delivery_;
  WorkerPool text_workers_;
  std::thread ticker_;
  Watchdog watchdog_;
};

}  // namespace quire

#endif  // QUIRE_SERVER_SERVER_CORE_H_
