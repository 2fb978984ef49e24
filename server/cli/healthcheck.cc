// `quire healthcheck`: asks a server whether it is ready, or alive, for exec probes.

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include <grpcpp/grpcpp.h>

#include "server/cli/channel.h"
#include "server/cli/command.h"
#include "server/cli/report.h"

namespace quire::cli {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

enum class Service { kReadiness, kLiveness };

struct Options {
  std::string address = "127.0.0.1:50051";
  Service service = Service::kReadiness;
  int64_t timeout_ms = 5000;
  ChannelOptions channel;
};

std::vector<Flag> HealthcheckFlags(Options* options) {
  std::vector<Flag> flags = {
      MakeFlag("--address", "HOST:PORT", "The server to ask (default: 127.0.0.1:50051)",
               &options->address),
      ChoiceFlag(
          "--service", "NAME",
          "readiness: loaded and not draining; liveness: its engine moves "
          "(default: readiness)",
          {Choice<Service>{"readiness", Service::kReadiness}, {"liveness", Service::kLiveness}},
          &options->service),
      DurationFlag("--timeout", "SECONDS", "Wait at most this long (default: 5)", 1000,
                   &options->timeout_ms, 1)};
  for (Flag& flag : TlsFlags(&options->channel)) flags.push_back(std::move(flag));
  return flags;
}

ExitCode Healthcheck(const Options& options) {
  const absl::StatusOr<ServerChannel> channel = OpenChannel(options.address, options.channel);
  if (!channel.ok()) return Fail(ExitCode::kUsage, channel.status().message());
  const auto health = Health::NewStub(channel->channel);
  HealthCheckRequest request;
  if (options.service == Service::kLiveness) request.set_service("liveness");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(options.timeout_ms));
  HealthCheckResponse response;
  const grpc::Status status = health->Check(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return Fail(ExitCode::kUnreachable, absl::StrCat("no server answers at ", options.address, ": ",
                                                     status.error_message()));
  }
  if (!status.ok()) {
    return Fail(
        ExitCode::kRefused,
        absl::StrCat(options.address, " does not tell its health: ", status.error_message()));
  }
  if (response.status() == HealthCheckResponse::SERVING) return ExitCode::kOk;
  return Fail(ExitCode::kRefused,
              absl::StrCat(options.address, options.service == Service::kReadiness
                                                ? " is not ready: it loads, drains or is stuck"
                                                : " is not alive: its engine does not move"));
}

}  // namespace

Command HealthcheckCommand() {
  auto options = std::make_shared<Options>();
  return {
      .name = "healthcheck",
      .summary = "Ask a server whether it is ready, or alive, for exec probes",
      .examples = R"(Says nothing and ends with 0 where the server is; else says why in one line and
ends with 5, no server answers, or 6, it answers that it is not.

Examples:
  quire healthcheck
  quire healthcheck --address 127.0.0.1:50051 --service liveness --timeout 1)",
      .flags = HealthcheckFlags(options.get()),
      .run = [options] { return Healthcheck(*options); }};
}

}  // namespace quire::cli
