#include "server/cli/bench/open_target.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"

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

// Calls `look` until it finds what it wants, or the time is over.
void LookFor(int64_t wait_ms, absl::FunctionRef<bool()> look) {
  const double until_s = MonotonicSeconds() + 1e-3 * static_cast<double>(wait_ms);
  while (!look() && MonotonicSeconds() < until_s) std::this_thread::sleep_for(kLookInterval);
}

std::optional<Failure> OpenGrpc(const Options& options, OpenedTarget* opened, ExitCode* exit_code) {
  std::optional<Failure> failure;
  LookFor(options.wait_ms, [&] {
    opened->endpoint = std::make_unique<Endpoint>();
    failure = opened->endpoint->Open(options.endpoint, exit_code);
    return !failure || *exit_code != ExitCode::kUnreachable;
  });
  if (failure) return failure;
  const Endpoint& endpoint = *opened->endpoint;
  auto target = GrpcTarget::Open(endpoint.address(), endpoint.channel_options());
  absl::Status status = target.status();
  // The port is open before the model is loaded.
  if (status.ok()) {
    LookFor(options.wait_ms, [&] {
      status = (*target)->AskModel();
      return !absl::IsUnavailable(status);
    });
  }
  if (!status.ok()) {
    *exit_code = absl::IsUnavailable(status) ? ExitCode::kUnreachable : ExitCode::kRefused;
    return ToFailure(status, "");
  }
  if (const ModelInfo* model = endpoint.own_model()) {
    (*target)->AddWhatIsKnown(*model);
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
  return OpenGrpc(options, opened, exit_code);
}

}  // namespace quire::cli::bench
