// `quire serve`: loads a model and serves it until a signal.

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include <spdlog/spdlog.h>

#include "paged_kv/capacity.h"
#include "server/cli/client.h"
#include "server/cli/command.h"
#include "server/cli/engine_flags.h"
#include "server/cli/limit_flags.h"
#include "server/cli/log.h"
#include "server/cli/open_files.h"
#include "server/cli/report.h"
#include "server/cli/signal_watch.h"
#include "server/server.h"

namespace quire::cli {
namespace {

// An idle engine turns twice a second, and a step may take two.
constexpr int64_t kMinLivenessMs = 2000;

struct Options {
  Options() { server.metrics_listen = "127.0.0.1:9400"; }

  ServerConfig server;
  Server::DrainOptions drain = {.delay_ms = 5000, .timeout_ms = 20'000};
};

// What signals ask of the process: to drain, then to be gone at once.
class Stop {
 public:
  // On the thread of the SignalWatch.
  void OnSignal(int signal) {
    if (loading_) {
      spdlog::info("{} while loading: nothing to drain, ending", strsignal(signal));
      _exit(static_cast<int>(ExitCode::kOk));
    }
    if (asked_.HasBeenNotified()) {
      spdlog::warn("second signal: ending at once");
      _exit(static_cast<int>(ExitCode::kInterrupted));
    }
    signal_ = signal;
    asked_.Notify();
  }
  void LoadingIsDone() { loading_ = false; }
  // The signal that asked first.
  int Wait() {
    asked_.WaitForNotification();
    return signal_;
  }

 private:
  std::atomic<bool> loading_ = true;
  std::atomic<int> signal_ = 0;
  absl::Notification asked_;
};

void LogSummary(const Server& server, double load_seconds) {
  const ModelInfo& info = server.model_info();
  spdlog::info(
      "serving {} after {:.2f} s: {}, {} weights, {} as held; numerics {}; on {}; KV cache {} "
      "blocks "
      "of {} tokens = {} tokens, {}; max sequences {}, max length {}; address {}",
      server.served_model_name(), load_seconds, info.architecture, info.weight_format,
      BytesText(info.weight_bytes), info.numerics_mode, info.backend, info.num_blocks,
      info.block_size, int64_t{info.num_blocks} * info.block_size, BytesText(info.kv_cache_bytes),
      info.max_num_seqs, info.max_model_len, server.address());
}

ExitCode Serve(const Options& options) {
  if (absl::Status status = CheckEngineFlags(options.server.engine); !status.ok()) {
    return Fail(ExitCode::kUsage, status.message());
  }
  LogAsServer();
  RaiseOpenFilesLimit();
  Stop stop;
  SignalWatch watch({SIGINT, SIGTERM}, [&](int signal) { stop.OnSignal(signal); });

  ServerConfig config = options.server;
  config.on_stuck = [] { _exit(static_cast<int>(ExitCode::kFatal)); };
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config);
  if (!server.ok()) return FailToLoad(server.status());
  const std::string& metrics = (*server)->metrics_address();
  spdlog::info("listening on {}{}; loading {}", (*server)->address(),
               metrics.empty() ? "" : absl::StrCat(", metrics on http://", metrics, "/metrics"),
               options.server.engine.model_path);
  if (!IsLoopback(options.server.listen)) {
    spdlog::warn(
        "{} can be reached by others: what they send and get is neither encrypted nor "
        "asked for a password",
        (*server)->address());
  }
  const auto start = std::chrono::steady_clock::now();
  absl::Status loaded = (*server)->LoadModel([](absl::string_view phase, double seconds) {
    spdlog::info("{}: {:.2f} s", std::string(phase), seconds);
  });
  if (!loaded.ok()) return FailToLoad(loaded);
  stop.LoadingIsDone();
  const std::chrono::duration<double> load_time = std::chrono::steady_clock::now() - start;
  LogSummary(**server, load_time.count());

  const int signal = stop.Wait();
  // A person at the keyboard waits for nobody to notice that readiness went off.
  Server::DrainOptions drain = options.drain;
  if (signal == SIGINT) drain.delay_ms = 0;
  spdlog::info("{}: draining, at most {:.1f} s; a second signal ends at once", strsignal(signal),
               static_cast<double>(drain.delay_ms + drain.timeout_ms) / 1000);
  const Server::DrainResult result = (*server)->Drain(drain);
  spdlog::info("drained: {} requests finished, {} were ended", result.finished, result.ended);
  return ExitCode::kOk;
}

std::vector<Flag> ServeFlags(Options* options) {
  ServerConfig& server = options->server;
  Flag model = MakeFlag("MODEL", "", "A folder in Hugging Face format, or a .gguf file",
                        &server.engine.model_path);
  model.required = true;
  Flag alias = MakeFlag("--model-alias", "NAME", "Another name that requests may use; repeatable",
                        &server.model_aliases);
  alias.repeats = true;
  std::vector<Flag> flags = {
      model,
      MakeFlag("--listen", "HOST:PORT",
               "Where to listen; port 0: any free one (default: 127.0.0.1:50051)", &server.listen),
      MakeFlag("--served-model-name", "NAME",
               "What requests call the model (default: the last part of its path)",
               &server.served_model_name),
      alias,
      MakeFlag("--metrics-listen", "HOST:PORT",
               "Where /metrics, /livez, /readyz and /startupz are, over IPv4; \"\": nowhere "
               "(default: 127.0.0.1:9400)",
               &server.metrics_listen),
  };
  for (Flag& flag : EngineFlags(&server.engine)) flags.push_back(std::move(flag));
  for (Flag& flag : LimitFlags(&server.limits)) flags.push_back(std::move(flag));
  const Flag more[] = {
      DurationFlag("--drain-delay", "SECONDS",
                   "At SIGTERM: still accept for this long, not ready any more (default: 5)", 1000,
                   &options->drain.delay_ms),
      DurationFlag("--drain-timeout", "SECONDS",
                   "Then: let running requests go on for this long (default: 20)", 1000,
                   &options->drain.timeout_ms),
      DurationFlag("--liveness-timeout", "SECONDS",
                   "An engine that finishes no step for this long is reported as not alive, with "
                   "all stacks in the log (default: 30)",
                   1000, &server.liveness_timeout_ms, kMinLivenessMs),
      DurationFlag("--watchdog-timeout", "SECONDS",
                   "One that finishes none for this long ends the process with 70; 0: never "
                   "(default: 120)",
                   1000, &server.watchdog_timeout_ms),
      MakeFlag("--reflection", "BOOL", "Answer gRPC reflection (default: true)",
               &server.reflection),
  };
  flags.insert(flags.end(), std::begin(more), std::end(more));
  return flags;
}

}  // namespace

Command ServeCommand() {
  auto options = std::make_shared<Options>();
  return {
      .name = "serve",
      .summary = "Serve a model over gRPC until SIGTERM or Ctrl-C",
      .examples = R"(The port opens first and calls are answered MODEL_LOADING; the log on stderr
names each phase of loading and ends with a line that begins with "serving".
SIGTERM or Ctrl-C drains and ends with 0; a second one ends at once, with 130.

Examples:
  quire serve models/SmolLM2-135M-Instruct.Q4_1.gguf
  quire serve models/my-model --listen 127.0.0.1:0 --kv-cache 2GiB --max-model-len 8k
  quire serve models/my-model --served-model-name house --model-alias default)",
      .flags = ServeFlags(options.get()),
      .run = [options] { return Serve(*options); }};
}

}  // namespace quire::cli
