// `quire doctor`: what in this machine, its settings and a model would keep `serve` from serving
// well, and what to do about it.

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "absl/time/clock.h"

#include "engine/machine.h"
#include "server/cli/access_flags.h"
#include "server/cli/command.h"
#include "server/cli/doctor/access_checks.h"
#include "server/cli/doctor/finding.h"
#include "server/cli/doctor/machine_checks.h"
#include "server/cli/doctor/model_checks.h"
#include "server/cli/doctor/port_checks.h"
#include "server/cli/doctor/self_test.h"
#include "server/cli/doctor/self_test_model.h"
#include "server/cli/doctor/version_checks.h"
#include "server/cli/engine_flags.h"
#include "server/cli/listen_flags.h"
#include "server/cli/log.h"
#include "server/cli/report.h"
#include "server/cli/terminal.h"
#include "server/server_config.h"

namespace quire::cli {
namespace {

struct Options {
  Options() { server.metrics_listen = kDefaultMetricsListen; }

  ServerConfig server;
  bool json = false;
};

// Of a file of the kernel's; empty where it cannot be read.
std::string KernelText(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Finding> CheckCpu(const ServerConfig& config) {
  return {CpuFinding(FindCpu(config.engine))};
}

std::vector<Finding> CheckMemory(const ServerConfig& config) {
  return {MemoryFinding(FindMemory(),
                        {.meminfo = KernelText("/proc/meminfo"),
                         .overcommit = KernelText("/proc/sys/vm/overcommit_memory")},
                        config.engine.kv_cache_bytes)};
}

std::vector<Finding> CheckHugePages(const ServerConfig& /*config*/) {
  return {HugePagesFinding(KernelText("/sys/kernel/mm/transparent_hugepage/enabled"))};
}

std::vector<Finding> CheckOpenFiles(const ServerConfig& /*config*/) {
  rlimit limit = {};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  return {OpenFilesFinding(limit)};
}

std::vector<Finding> CheckAccess(const ServerConfig& config) {
  return AccessFindings(config, absl::Now());
}

std::vector<Finding> CheckPorts(const ServerConfig& config) {
  std::vector<ListenFlagValue> values = {{"--listen", config.listen}};
  if (!config.admin_listen.empty()) values.push_back({"--admin-listen", config.admin_listen});
  if (!config.metrics_listen.empty()) {
    values.push_back({"--metrics-listen", config.metrics_listen, AF_INET});
  }
  return PortFindings(values);
}

std::vector<Finding> CheckModel(const ServerConfig& config) {
  if (config.engine.model_path.empty()) return {};
  return {ModelFinding(config)};
}

std::vector<Finding> CheckFiles(const ServerConfig& config) {
  return FileFindings(config.engine.model_path);
}

std::vector<Finding> CheckVersions(const ServerConfig& config) {
  return VersionFindings(FindVersions(), config.listen);
}

std::vector<Finding> CheckComputing(const ServerConfig& config) {
  return {SelfTestFinding(SelfTestModel(kSelfTestSeed), config.engine.num_threads)};
}

// In the order in which serving would meet what they find: the first problem decides how it ends.
constexpr std::vector<Finding> (*kChecks[])(const ServerConfig& config) = {
    CheckAccess,    CheckPorts, CheckCpu,   CheckMemory,   CheckHugePages,
    CheckOpenFiles, CheckModel, CheckFiles, CheckVersions, CheckComputing};

ExitCode Doctor(const Options& options) {
  if (absl::Status status = CheckEngineFlags(options.server.engine); !status.ok()) {
    return Fail(ExitCode::kUsage, status.message());
  }
  LogAsCommand();
  const bool with_colours = HasColours(STDOUT_FILENO);
  std::vector<Finding> findings;
  for (const auto& check : kChecks) {
    for (Finding& finding : check(options.server)) {
      // At once: to digest a large model takes a while.
      if (!options.json) std::cout << ToText(finding, with_colours) << std::flush;
      findings.push_back(std::move(finding));
    }
  }
  const ExitCode code = CodeOf(findings);
  if (options.json) {
    Json shown = {
        {"findings", Json::array()}, {"ok", code == ExitCode::kOk}, {"versions", Json::object()}};
    for (const Finding& finding : findings) shown["findings"].push_back(ToJson(finding));
    for (const auto& [name, version] : FindVersions()) shown["versions"][name] = version;
    std::cout << OneLine(shown) << '\n';
  }
  return code;
}

std::vector<Flag> DoctorFlags(Options* options) {
  std::vector<Flag> flags = {
      MakeFlag("MODEL", "", "A folder in Hugging Face format, or a .gguf file; may be left out",
               &options->server.engine.model_path),
      Switch("--json", "One line of JSON", &options->json), ListenFlag(&options->server),
      MetricsListenFlag(&options->server)};
  for (Flag& flag : AccessFlags(&options->server)) flags.push_back(std::move(flag));
  for (Flag& flag : EngineFlags(&options->server.engine)) flags.push_back(std::move(flag));
  return flags;
}

}  // namespace

Command DoctorCommand() {
  auto options = std::make_shared<Options>();
  return {
      .name = "doctor",
      .summary = "Find what would keep `serve` from serving well here, and what to do about it",
      .examples =
          R"(Takes the flags and variables of serve that bear on this, and changes nothing: it opens
the ports for a moment, computes a few tokens of a built-in model, and reads the model's
files from end to end. Ends with 0 where there are only warnings, else with the code that
serving would end with, or 1 where the self-test fails.

Examples:
  quire doctor
  quire doctor models/SmolLM2-135M-Instruct.Q4_1.gguf --listen 0.0.0.0:50051
  quire doctor --json)",
      .flags = DoctorFlags(options.get()),
      .run = [options] { return Doctor(*options); }};
}

}  // namespace quire::cli
