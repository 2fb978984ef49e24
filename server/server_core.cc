#include "server/server_core.h"

#include <algorithm>
#include <chrono>
#include <pthread.h>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "spdlog/spdlog.h"

#include "server/errors.h"
#include "server/params.h"
#include "server/stack_dump.h"

namespace quire {
namespace {

// Prompts are tokenised beside each other, so that a huge one does not stop the others.
constexpr int kNumTextWorkers = 2;
constexpr int64_t kStackPatienceMs = 200;

std::string MakeInstanceId() {
  std::random_device device;
  return absl::StrCat(absl::Hex(device(), absl::kZeroPad8), absl::Hex(device(), absl::kZeroPad8));
}

// The last part of the path, without ".gguf".
std::string NameOfPath(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  if (const size_t slash = path.rfind('/'); slash != absl::string_view::npos && path.size() > 1) {
    path.remove_prefix(slash + 1);
  }
  if (path.size() > 5 && path.substr(path.size() - 5) == ".gguf") path.remove_suffix(5);
  return path.empty() ? "model" : std::string(path);
}

std::pair<std::string, std::string> KeyOf(const Generation& generation) {
  return {std::string(generation.origin().tenant_name()), generation.request_id()};
}

}  // namespace

ServerCore::ServerCore(const ServerConfig& config)
    : config_(config),
      instance_id_(MakeInstanceId()),
      access_(config.access_tokens),
      tls_(config.tls),
      admission_(config_.limits),
      delivery_(config_.limits.max_concurrent_requests),
      text_workers_("quire-text", kNumTextWorkers),
      ticker_([this] { Tick(); }),
      watchdog_({.silent_ms = config.liveness_timeout_ms, .fatal_ms = config.watchdog_timeout_ms},
                WatchdogHooks()) {}

ServerCore::~ServerCore() { Close(); }

void ServerCore::Serve(std::unique_ptr<Engine> engine, std::unique_ptr<ModelText> text) {
  model_ = std::make_unique<ServingModel>();
  model_->name = config_.served_model_name.empty() ? NameOfPath(engine->info().path)
                                                   : config_.served_model_name;
  model_->aliases = config_.model_aliases;
  model_->info = engine->info();
  model_->default_params = DefaultParams(model_->info);
  model_->engine = std::move(engine);
  model_->engine->SetHandOver([this] { delivery_.HandOver(); });
  model_->text = std::move(text);
  model_->max_queued_requests = config_.engine.max_queued_requests;
  metrics_.SetModel(model_->name);
  model_ptr_.store(model_.get());
  UpdateHealth();
  watchdog_.Watch([engine = model_->engine.get()] { return engine->Heartbeat(); });
}

absl::StatusOr<const ServingModel*> ServerCore::ModelForCall() const {
  if (refuses_new()) return StatusOfEnd({.reason = EndReason::kDraining});
  const ServingModel* model = model_ptr_.load();
  if (model != nullptr) return model;
  return MakeError(absl::StatusCode::kUnavailable, "MODEL_LOADING",
                   "the model is still being loaded; try again soon");
}

absl::StatusOr<std::shared_ptr<Generation>> ServerCore::AddGeneration(
    CallOrigin origin, v1::GenerateRequest request, CallTicket ticket, TimeUs deadline,
    const ServingModel& model, GenerationWriter* writer) {
  auto generation =
      std::make_shared<Generation>(std::move(origin), std::move(request), std::move(ticket),
                                   deadline, model, config_.limits, *this, writer);
  std::lock_guard<std::mutex> lock(mu_);
  if (!by_id_.emplace(KeyOf(*generation), generation.get()).second) {
    return MakeError(absl::StatusCode::kAlreadyExists, "REQUEST_ID_IN_USE",
                     absl::StrCat("request_id \"", generation->request_id(),
                                  "\" names a request that is not over"),
                     {{"request_id", generation->request_id()}});
  }
  open_.insert(generation);
  return generation;
}

void ServerCore::OnClosed(const std::shared_ptr<Generation>& generation) {
  generation->OnClosed();
  {
    std::lock_guard<std::mutex> lock(mu_);
    open_.erase(generation);
  }
  closed_one_.notify_all();
}

void ServerCore::Abort(absl::string_view tenant, absl::string_view request_id) {
  std::shared_ptr<Generation> found;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = by_id_.find(std::pair(std::string(tenant), std::string(request_id)));
    if (it == by_id_.end()) return;
    found = it->second->shared_from_this();
  }
  found->End(EndReason::kAborted);
}

int ServerCore::AbortOfAnyTenant(const absl::flat_hash_set<std::string>& request_ids) {
  std::vector<std::shared_ptr<Generation>> found;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [key, generation] : by_id_) {
      if (request_ids.contains(key.second)) found.push_back(generation->shared_from_this());
    }
  }
  for (const auto& generation : found) generation->End(EndReason::kAborted);
  return static_cast<int>(found.size());
}

std::string ServerCore::MakeRequestId() {
  return absl::StrCat("req-", instance_id_, "-", next_request_.fetch_add(1));
}

void ServerCore::PumpSoon(std::shared_ptr<Generation> generation) {
  delivery_.Collect(std::move(generation));
}

void ServerCore::OnFinished(const Generation& generation, const absl::Status& status) {
  if (!status.ok() && ReasonOf(status) == "DRAINING") num_drained_.fetch_add(1);
  std::lock_guard<std::mutex> lock(mu_);
  by_id_.erase(KeyOf(generation));
}

void ServerCore::OnRecord(const RequestRecord& record) {
  metrics_.OnRecord(record);
  access_log_.OnRecord(record);
}

void ServerCore::OnCallEnded(const char* method, const CallOrigin& origin,
                             const absl::Status& status,
                             std::chrono::steady_clock::time_point arrived_at) {
  if (!status.ok()) metrics_.OnRejected(ReasonOf(status));
  const auto total = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - arrived_at);
  access_log_.OnCall(method, origin, status, total.count());
}

// ---- Drain ----

void ServerCore::StopBeingReady() {
  ready_.store(false);
  UpdateHealth();
}

void ServerCore::StopAccepting() {
  accepting_.store(false);
  if (const ServingModel* model = model_ptr_.load()) model->engine->EndQueued();
}

int ServerCore::WaitForGenerations(int64_t timeout_ms) {
  std::unique_lock<std::mutex> lock(mu_);
  closed_one_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                       [this] { return open_.empty(); });
  return static_cast<int>(open_.size());
}

void ServerCore::EndGenerations() {
  for (const auto& generation : AllGenerations()) generation->End(EndReason::kDraining);
}

int ServerCore::num_generations() {
  std::lock_guard<std::mutex> lock(mu_);
  return static_cast<int>(open_.size());
}

std::vector<std::shared_ptr<Generation>> ServerCore::AllGenerations() {
  std::lock_guard<std::mutex> lock(mu_);
  return {open_.begin(), open_.end()};
}

void ServerCore::Close() {
  {
    std::lock_guard<std::mutex> lock(tick_mu_);
    tick_stop_ = true;
  }
  tick_wake_.notify_all();
  if (ticker_.joinable()) ticker_.join();
  // From here on there is no sign of life but the end of all this; a silence of before goes on.
  closing_.store(true);
  const ServingModel* model = model_ptr_.load();
  const TimeUs last_sign =
      model != nullptr && model->engine != nullptr ? model->engine->Heartbeat() : 0;
  watchdog_.Watch([last_sign] { return last_sign; });
  text_workers_.Stop();
  if (model_ != nullptr && model_->engine != nullptr) {
    const SchedulerStats stats = model_->engine->Stats();
    spdlog::info("the engine ends after {} steps: preemptions {}, KV blocks held {} of {}",
                 stats.num_steps, stats.num_preemptions, stats.blocks_held, stats.blocks_total);
    // It ends what it still has, and tells its listeners: delivery goes on until then.
    model_->engine.reset();
  }
  delivery_.Stop();
  watchdog_.Watch(nullptr);
}

// ---- Time ----

void ServerCore::Tick() {
  pthread_setname_np(pthread_self(), "quire-ticker");
  const int64_t period_ms = std::clamp<int64_t>(config_.limits.slow_reader_timeout_ms / 8, 5, 1000);
  std::unique_lock<std::mutex> lock(tick_mu_);
  while (!tick_wake_.wait_for(lock, std::chrono::milliseconds(period_ms),
                              [this] { return tick_stop_; })) {
    if (const ServingModel* model = model_ptr_.load()) {
      const TimeUs now = model->engine->Now();
      for (const auto& generation : AllGenerations()) generation->CheckProgress(now);
      ReportLeak(*model->engine);
    }
  }
}

void ServerCore::ReportLeak(const Engine& engine) {
  const std::string report = leak_told_ ? "" : engine.LeakReport();
  if (report.empty()) return;
  leak_told_ = true;
  spdlog::error(
      "KV blocks leak, which is a bug of Quire; restart it when they become many "
      "(quire_kv_blocks_leaked): {}",
      report);
}

void ServerCore::UpdateHealth() {
  std::lock_guard<std::mutex> lock(health_mu_);
  const bool alive = alive_.load();
  health_.Set(model_ptr_.load() != nullptr && alive && ready_.load(), alive);
}

Watchdog::Hooks ServerCore::WatchdogHooks() {
  Watchdog::Hooks hooks;
  hooks.on_change = [this](bool alive) {
    alive_.store(alive);
    UpdateHealth();
    if (alive) spdlog::warn("the engine moves again: alive");
  };
  hooks.on_silence = [this](TimeUs silence) { ReportSilence(silence); };
  hooks.on_fatal = [this](TimeUs silence) {
    spdlog::critical("the engine has not moved for {:.1f} s: giving up (--watchdog-timeout)",
                     absl::ToDoubleSeconds(absl::Microseconds(silence)));
    if (config_.on_stuck != nullptr) config_.on_stuck();
  };
  return hooks;
}

void ServerCore::ReportSilence(TimeUs silence) const {
  spdlog::error("the engine has not moved for {:.1f} s: not alive (--liveness-timeout)",
                absl::ToDoubleSeconds(absl::Microseconds(silence)));
  if (!closing_.load()) {
    const SchedulerStats stats = model_ptr_.load()->engine->Stats();
    spdlog::error(
        "scheduler: {} running, {} waiting with {} tokens to prefill; KV blocks: {} held, {} "
        "cached, {} in all; {} steps, {} preemptions",
        stats.num_running, stats.num_waiting, stats.queued_prefill_tokens, stats.blocks_held,
        stats.blocks_cached, stats.blocks_total, stats.num_steps, stats.num_preemptions);
  }
  for (const std::string& stack : DumpStacks(kStackPatienceMs)) spdlog::error("{}", stack);
}

std::string ServerCore::WhyNotAlive() const {
  if (health_.Get("liveness").value_or(false)) return "";
  const ServingModel* model = model_ptr_.load();
  if (model == nullptr) return "loading";
  return absl::StrCat("the engine has been silent for ",
                      (model->engine->Now() - model->engine->Heartbeat()) / 1'000'000, " s");
}

std::string ServerCore::WhyNotReady() const {
  if (health_.Get("").value_or(false)) return "";
  if (model_ptr_.load() == nullptr) return "loading";
  if (!ready_.load()) return "draining";
  return WhyNotAlive();
}

}  // namespace quire
