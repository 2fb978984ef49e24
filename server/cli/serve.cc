// `quire serve`: loads a model and serves it until a signal.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include <spdlog/spdlog.h>

#include "server/cli/access_flags.h"
#include "server/cli/command.h"
#include "server/cli/command_line.h"
#include "server/cli/engine_flags.h"
#include "server/cli/format_value.h"
#include "server/cli/limit_flags.h"
#include "server/cli/listen_flags.h"
#include "server/cli/log.h"
#include "server/cli/model_summary.h"
#include "server/cli/open_files.h"
#include "server/cli/reload.h"
#include "server/cli/report.h"
#include "server/cli/signal_watch.h"
#include "server/listen_address.h"
#include "server/server.h"

namespace quire::cli {
namespace {

// An idle engine turns twice a second, and a step may take two.
constexpr int64_t kMinLivenessMs = 2000;
// For what the log still has to say; nobody may be there to read it.
constexpr std::chrono::seconds kLastWords{1};
constexpr std::initializer_list<int> kSignals = {SIGINT, SIGTERM, SIGHUP};

struct Options {
  Options() { server.metrics_listen = kDefaultMetricsListen; }

  ServerConfig server;
  Server::DrainOptions drain = {.delay_ms = 5000, .timeout_ms = 20'000};
  LogOptions log;
  bool dry_run = false;
  Given given;
};

Command CommandOver(Options* options);

// What contradicts itself among them, before anything is loaded; the message names the flags.
absl::Status CheckFlags(const ServerConfig& server) {
  if (server.watchdog_timeout_ms > 0 && server.watchdog_timeout_ms < server.liveness_timeout_ms) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--watchdog-timeout is ", FormatDurationMs(server.watchdog_timeout_ms),
        " and --liveness-timeout is ", FormatDurationMs(server.liveness_timeout_ms),
        "; the first must not be shorter, because what it ends has to be reported before (0: it "
        "ends nothing)"));
  }
  return CheckEngineFlags(server.engine);
}

[[noreturn]] void EndNow(QueueSink& log, ExitCode code) {
  log.Flush(kLastWords);
  _exit(static_cast<int>(code));
}

// What signals, and AdminService, ask of the process: to drain, then to be gone at once; or to read
// its configuration again.
class Stop {
 public:
  Stop(std::function<void()> on_hangup, QueueSink& log)
      : on_hangup_(std::move(on_hangup)), log_(log) {}

  // On the thread of the SignalWatch.
  void OnSignal(int signal) {
    // A terminal that closes sends it twice: from its shell, and from the kernel.
    if (signal == SIGHUP && signal_ != 0) return;
    // Whoever closes the terminal of a server wants it gone.
    const bool lost_terminal = had_terminal_ && isatty(STDERR_FILENO) == 0;
    if (signal == SIGHUP && !lost_terminal) return on_hangup_();
    if (loading_) {
      spdlog::info("{} while loading: nothing to drain, ending", strsignal(signal));
      EndNow(log_, ExitCode::kOk);
    }
    if (Begin(signal)) return;
    spdlog::warn("second signal: ending at once");
    EndNow(log_, ExitCode::kInterrupted);
  }
  // As SIGTERM does, but not a second time.
  void OnDrainAsked() {
    if (loading_) {
      kill(getpid(), SIGTERM);
    } else {
      Begin(SIGTERM);
    }
  }
  void LoadingIsDone() { loading_ = false; }
  // The signal that asked first.
  int Wait() {
    asked_.WaitForNotification();
    return signal_;
  }

 private:
  // False: it has begun before.
  bool Begin(int signal) {
    int none = 0;
    if (!signal_.compare_exchange_strong(none, signal)) return false;
    asked_.Notify();
    return true;
  }

  const std::function<void()> on_hangup_;
  QueueSink& log_;
  const bool had_terminal_ = isatty(STDERR_FILENO) == 1;
  std::atomic<bool> loading_ = true;
  std::atomic<int> signal_ = 0;  // the first one
  absl::Notification asked_;
};

// Takes up what may change while it runs. `server` may be null: there is none yet.
void ReloadConfig(const Given& given, Reload& reload, LogLevel& log_level, Server* server) {
  if (server != nullptr) {
    if (const absl::Status status = server->ReloadAccess(); !status.ok()) {
      spdlog::error("SIGHUP: {}; what is in use stays in use", std::string(status.message()));
    }
  }
  Options next;
  const Command again = CommandOver(&next);
  absl::Status read = SetFlagsAgain(again, given);
  if (read.ok()) read = CheckFlags(next.server);
  if (!read.ok()) {
    spdlog::error("SIGHUP: {}; the configuration stays as it was", std::string(read.message()));
    return;
  }
  const Reload::Changes changes = reload.Compare(again.flags);
  // Of two levels, the one that shows more shows the change.
  SetLogLevel(std::min(log_level, next.log.level));
  if (!changes.need_restart.empty()) {
    spdlog::warn("SIGHUP: changed, but taken up by a restart only: {}",
                 absl::StrJoin(changes.need_restart, ", "));
  }
  spdlog::info("SIGHUP: {}", changes.reloaded.empty()
                                 ? "nothing to reload has changed in the configuration"
                                 : "reloaded " + absl::StrJoin(changes.reloaded, ", "));
  log_level = next.log.level;
  SetLogLevel(log_level);
}

void WarnOfOpenDoors(const ServerConfig& config, const std::string& address) {
  if (IsLoopback(config.listen)) return;
  if (!config.tls.is_on()) {
    spdlog::warn("{} can be reached by others, and what they send and get is not encrypted",
                 address);
  }
  if (config.access_tokens.empty() && config.tls.client_ca.empty()) {
    spdlog::warn("{} can be reached by others, and nobody is asked who they are", address);
  }
}

// Says what would be served, or fails as serving would.
ExitCode DryRun(const Options& options) {
  LogAsCommand();
  const absl::StatusOr<ModelInfo> info = Server::Check(options.server);
  if (!info.ok()) return FailToLoad(info.status());
  std::cout << "ok: " << SummaryOf(*info) << "\n";
  return ExitCode::kOk;
}

// How it ends is settled: a signal that comes now must not change it.
void IgnoreSignals() {
  for (const int signal : kSignals) std::signal(signal, SIG_IGN);
}

// Says why it could not be loaded. Nobody may read stderr: ends the process after a while then.
ExitCode FailWithPatience(const absl::Status& status) {
  const auto said = std::make_shared<absl::Notification>();
  std::thread([status, said] {
    FailToLoad(status);
    said->Notify();
  }).detach();
  const ExitCode code = LoadExitCode(status);
  if (!said->WaitForNotificationWithTimeout(absl::FromChrono(kLastWords))) {
    _exit(static_cast<int>(code));
  }
  return code;
}

// Until it has drained.
ExitCode ServeWithLog(Options& options, QueueSink& log) {
  RaiseOpenFilesLimit();
  Reload reload(CommandOver(&options).flags);
  // Each goes before what it uses: the thread that handles signals, the server, what both ask.
  std::atomic<Server*> started = nullptr;
  Stop stop([&] { ReloadConfig(options.given, reload, options.log.level, started.load()); }, log);
  absl::StatusOr<std::unique_ptr<Server>> server;
  SignalWatch watch(kSignals, [&](int signal) { stop.OnSignal(signal); });
  const auto fail = [&](const absl::Status& status) {
    started.store(nullptr);
    server = absl::Status(status);  // its ports close while signals are still ours
    log.Flush(kLastWords);          // the reason comes last
    const ExitCode code = FailWithPatience(status);
    IgnoreSignals();
    return code;
  };

  ServerConfig config = options.server;
  config.on_stuck = [&log] { EndNow(log, ExitCode::kFatal); };
  config.num_dropped_log_lines = [&log] { return log.num_dropped(); };
  config.on_drain = [&stop] { stop.OnDrainAsked(); };
  server = Server::Start(config);
  if (!server.ok()) return fail(server.status());
  started.store(server->get());
  const std::string& metrics = (*server)->metrics_address();
  const std::string& admin = (*server)->admin_address();
  spdlog::info("listening on {}{}{}; loading {}", (*server)->address(),
               metrics.empty() ? "" : absl::StrCat(", metrics on http://", metrics, "/metrics"),
               admin.empty() ? "" : absl::StrCat(", administration on ", admin),
               options.server.engine.model_path);
  WarnOfOpenDoors(config, (*server)->address());
  const auto start = std::chrono::steady_clock::now();
  absl::Status loaded = (*server)->LoadModel([](absl::string_view phase, double seconds) {
    spdlog::info("{}: {:.2f} s", std::string(phase), seconds);
  });
  if (!loaded.ok()) return fail(loaded);
  stop.LoadingIsDone();
  const std::chrono::duration<double> load_time = std::chrono::steady_clock::now() - start;
  spdlog::info("serving {} after {:.2f} s: {}; address {}", (*server)->served_model_name(),
               load_time.count(), SummaryOf((*server)->model_info()), (*server)->address());

  const int signal = stop.Wait();
  // A person at the keyboard waits for nobody to notice that readiness went off.
  Server::DrainOptions drain = options.drain;
  if (signal != SIGTERM) drain.delay_ms = 0;
  spdlog::info("{}: draining, at most {:.1f} s; a second signal ends at once", strsignal(signal),
               static_cast<double>(drain.delay_ms + drain.timeout_ms) / 1000);
  const Server::DrainResult result = (*server)->Drain(drain);
  spdlog::info("drained: {} requests finished, {} were ended", result.finished, result.ended);
  log.Flush(kLastWords);
  IgnoreSignals();
  return ExitCode::kOk;
}

ExitCode Serve(Options& options) {
  if (absl::Status status = CheckFlags(options.server); !status.ok()) {
    return Fail(ExitCode::kUsage, status.message());
  }
  if (options.dry_run) return DryRun(options);
  const std::shared_ptr<QueueSink> log = LogAsServer(options.log);
  return ServeWithLog(options, *log);
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
      ListenFlag(&server),
      MakeFlag("--served-model-name", "NAME",
               "What requests call the model (default: the last part of its path)",
               &server.served_model_name),
      alias,
      MetricsListenFlag(&server),
  };
  for (Flag& flag : AccessFlags(&server)) flags.push_back(std::move(flag));
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
                   "One that finishes none for this long ends the process with 70, not less than "
                   "--liveness-timeout; 0: never (default: 120)",
                   1000, &server.watchdog_timeout_ms),
      MakeFlag("--reflection", "BOOL",
               "Answer gRPC reflection; never with --access-tokens (default: true)",
               &server.reflection),
  };
  flags.insert(flags.end(), std::begin(more), std::end(more));
  for (Flag& flag : LogFlags(&options->log)) flags.push_back(std::move(flag));
  Flag dry_run =
      Switch("--dry-run", "Check configuration, model files and memory, say the result, end",
             &options->dry_run);
  dry_run.sources = Sources::kCommandLine;
  flags.push_back(dry_run);
  return flags;
}

Command CommandOver(Options* options) {
  return {
      .name = "serve",
      .summary = "Serve a model over gRPC until SIGTERM or Ctrl-C",
      .examples = R"(The port opens first and calls are answered MODEL_LOADING; the log on stderr
names each phase of loading and ends with a line that begins with "serving".
SIGTERM or Ctrl-C drains and ends with 0; a second one ends at once, with 130. SIGHUP reads
the configuration again and takes up the log level, tokens and certificates.
Each flag may be given as a variable, QUIRE_MAX_NUM_SEQS for --max-num-seqs, or in
the file of --config; a flag comes before a variable, a variable before the file.

Examples:
  quire serve models/SmolLM2-135M-Instruct.Q4_1.gguf
  quire serve models/my-model --listen 127.0.0.1:0 --kv-cache 2GiB --max-model-len 8k
  quire serve models/my-model --served-model-name house --model-alias default
  quire serve models/my-model --print-config > quire.toml
  quire serve --config quire.toml --dry-run)",
      .flags = ServeFlags(options),
      .run = [options] { return Serve(*options); },
      .given = &options->given};
}

}  // namespace

Command ServeCommand() {
  auto options = std::make_shared<Options>();
  Command command = CommandOver(options.get());
  command.run = [options] { return Serve(*options); };
  return command;
}

}  // namespace quire::cli
