#include "server/cli/bench/open_target.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "engine/engine.h"
#include "server/cli/bench/clock.h"
#include "server/cli/bench/engine_target.h"
#include "server/cli/bench/grpc_target.h"

namespace quire::cli::bench {
namespace {

// Between looks for a server that does not serve yet; it is part of what `--wait` lets measure.
constexpr std::chrono::milliseconds kLookInterval(5);

std::optional<Failure> OpenEngine(const EngineConfig& config, OpenedTarget* opened,
                                  ExitCode* exit_code) {
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Load(config, [](absl::string_view, double) {});
  if (!engine.ok()) {
    *exit_code = LoadExitCode(engine.status());
    return ToFailure(engine.status(), "");
  }
  opened->target = std::make_unique<EngineTarget>(*std::move(engine));
  return std::nullopt;
}

std::optional<Failure> OpenGrpc(const Options& options, OpenedTarget* opened, ExitCode* exit_code) {
  opened->endpoint = std::make_unique<Endpoint>();
  Endpoint& endpoint = *opened->endpoint;
  if (auto failure = endpoint.Open(options.endpoint, exit_code)) return failure;
  auto target = GrpcTarget::Open(endpoint.address(), endpoint.channel_options());
  if (!target.ok()) {
    *exit_code = absl::IsUnavailable(target.status()) ? ExitCode::kUnreachable : ExitCode::kRefused;
    return ToFailure(target.status(), "");
  }
  if (const ModelInfo* model = endpoint.own_model()) {
    (*target)->set_weight_bytes(model->weight_bytes);
  }
  opened->target = *std::move(target);
  return std::nullopt;
}

}  // namespace

std::optional<Failure> OpenTarget(const Options& options, OpenedTarget* opened,
                                  ExitCode* exit_code) {
  if (!options.engine_path.empty()) {
    return OpenEngine(options.endpoint.engine, opened, exit_code);
  }
  const double until_s = MonotonicSeconds() + 1e-3 * static_cast<double>(options.wait_ms);
  while (true) {
    auto failure = OpenGrpc(options, opened, exit_code);
    if (!failure || *exit_code != ExitCode::kUnreachable || MonotonicSeconds() >= until_s) {
      return failure;
    }
    std::this_thread::sleep_for(kLookInterval);
  }
}

}  // namespace quire::cli::bench
