#include "server/cli/endpoint.h"

#include "server/cli/engine_flags.h"

namespace quire::cli {
namespace {

constexpr char kDefaultAddress[] = "127.0.0.1:50051";

}  // namespace

std::vector<Flag> EndpointFlags(EndpointOptions* options) {
  Flag address = MakeFlag("--address", "HOST:PORT", "The server to ask (default: 127.0.0.1:50051)",
                          &options->address);
  address.yields_to = {"--model"};
  Flag model = MakeFlag("--model", "PATH",
                        "Load this model here instead of asking a server: a folder, or a .gguf "
                        "file",
                        &options->engine.model_path);
  // QUIRE_MODEL is what the server beside this command serves.
  model.sources = Sources::kCommandLine;
  std::vector<Flag> flags = {address};
  for (Flag& flag : ChannelFlags(&options->channel)) flags.push_back(std::move(flag));
  flags.push_back(model);
  for (Flag& flag : EngineFlags(&options->engine)) {
    flag.help = absl::StrCat("With --model: ", flag.help);
    flags.push_back(std::move(flag));
  }
  return flags;
}

std::optional<Failure> Endpoint::Open(const EndpointOptions& options, ExitCode* exit_code) {
  std::string address = options.address.empty() ? kDefaultAddress : options.address;
  if (!options.engine.model_path.empty()) {
    if (!options.address.empty()) {
      *exit_code = ExitCode::kUsage;
      return Failure{.code = "INVALID_ARGUMENT",
                     .message = "give one of --address and --model, not both"};
    }
    if (auto failure = StartServer(options.engine, &address, exit_code)) return failure;
  }
  address_ = address;
  // How to reach a server says nothing of our own.
  if (server_ == nullptr) channel_options_ = options.channel;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(address, channel_options_);
  if (client.ok()) {
    client_ = *std::move(client);
    return std::nullopt;
  }
  *exit_code = absl::IsUnavailable(client.status()) ? ExitCode::kUnreachable : ExitCode::kUsage;
  return ToFailure(client.status(), "");
}

const ModelInfo* Endpoint::own_model() const {
  return server_ == nullptr ? nullptr : &server_->model_info();
}

std::optional<Failure> Endpoint::StartServer(const EngineConfig& config, std::string* address,
                                             ExitCode* exit_code) {
  if (absl::Status status = CheckEngineFlags(config); !status.ok()) {
    *exit_code = ExitCode::kUsage;
    return ToFailure(status, "");
  }
  ServerConfig server_config;
  server_config.engine = config;
  server_config.listen = "127.0.0.1:0";
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(server_config);
  if (!server.ok()) {
    *exit_code = ExitCode::kResources;
    return ToFailure(server.status(), "");
  }
  server_ = *std::move(server);
  absl::Status status = server_->LoadModel([](absl::string_view, double) {});
  if (!status.ok()) {
    *exit_code = LoadExitCode(status);
    return ToFailure(status, "");
  }
  *address = server_->address();
  return std::nullopt;
}

}  // namespace quire::cli
