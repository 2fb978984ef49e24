#include "server/cli/channel.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include <grpcpp/grpcpp.h>

#include "server/cli/read_text.h"
#include "server/listen_address.h"

namespace quire::cli {
namespace {

// Empty for an empty path.
absl::StatusOr<std::string> ReadFor(const char* flag, const std::string& path) {
  if (path.empty()) return "";
  absl::StatusOr<std::string> text = ReadText(path);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", text.status().message()));
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const ChannelOptions& options) {
  const bool has_identity = !options.tls_client_cert.empty();
  if (has_identity != !options.tls_client_key.empty()) {
    return absl::InvalidArgumentError("--tls-client-cert and --tls-client-key belong together");
  }
  if (options.tls_ca.empty()) {
    if (has_identity || !options.tls_server_name.empty()) {
      return absl::InvalidArgumentError(
          "--tls-client-cert and --tls-server-name are for TLS; give --tls-ca FILE, or --tls-ca "
          "system");
    }
    return grpc::InsecureChannelCredentials();
  }
  const std::string ca_path = options.tls_ca == "system" ? "" : options.tls_ca;
  auto ca = ReadFor("--tls-ca", ca_path);
  auto cert = ReadFor("--tls-client-cert", options.tls_client_cert);
  auto key = ReadFor("--tls-client-key", options.tls_client_key);
  for (const auto* file : {&ca, &cert, &key}) {
    if (!file->ok()) return file->status();
  }
  return grpc::SslCredentials({.pem_root_certs = *std::move(ca),
                               .pem_private_key = *std::move(key),
                               .pem_cert_chain = *std::move(cert)});
}

absl::StatusOr<std::string> AuthorizationOf(const std::string& address,
                                            const ChannelOptions& options) {
  if (options.token_file.empty()) return "";
  if (options.tls_ca.empty() && !options.allow_plaintext_auth && !IsLoopback(address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--token-file: the token would go to ", address,
                     " in plaintext; give --tls-ca, or --allow-plaintext-auth"));
  }
  const absl::StatusOr<std::string> text = ReadFor("--token-file", options.token_file);
  if (!text.ok()) return text.status();
  const absl::string_view token = absl::StripAsciiWhitespace(*text);
  for (const char c : token) {
    if (!absl::ascii_isgraph(c)) {
      return absl::InvalidArgumentError(absl::StrCat("--token-file ", options.token_file,
                                                     ": must hold one token, of visible "
                                                     "ASCII characters"));
    }
  }
  if (token.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--token-file ", options.token_file, ": is empty"));
  }
  return absl::StrCat("Bearer ", token);
}

}  // namespace

std::vector<Flag> TlsFlags(ChannelOptions* options) {
  return {
      MakeFlag("--tls-ca", "FILE",
               "Use TLS, and believe servers whose certificate is by one of these (PEM); system: "
               "those that this machine believes",
               &options->tls_ca),
      MakeFlag("--tls-server-name", "NAME",
               "The name that the server's certificate has, where the address has another",
               &options->tls_server_name),
      MakeFlag("--tls-client-cert", "FILE", "Who we are, for a server that asks (PEM)",
               &options->tls_client_cert),
      MakeFlag("--tls-client-key", "FILE", "The key of that certificate (PEM)",
               &options->tls_client_key),
  };
}

std::vector<Flag> ChannelFlags(ChannelOptions* options) {
  std::vector<Flag> flags = TlsFlags(options);
  flags.push_back(MakeFlag("--token-file", "FILE",
                           "Holds the bearer token, for a server that asks for one",
                           &options->token_file));
  Flag allow = Switch("--allow-plaintext-auth",
                      "Let the token cross a network without TLS, because something else encrypts",
                      &options->allow_plaintext_auth);
  // The variable is about what the server beside this command lets in.
  allow.sources = Sources::kCommandLine;
  flags.push_back(allow);
  return flags;
}

void ServerChannel::Authorize(grpc::ClientContext* context) const {
  if (!authorization.empty()) context->AddMetadata("authorization", authorization);
}

absl::StatusOr<ServerChannel> OpenChannel(const std::string& address,
                                          const ChannelOptions& options) {
  const auto credentials = CredentialsOf(options);
  if (!credentials.ok()) return credentials.status();
  absl::StatusOr<std::string> authorization = AuthorizationOf(address, options);
  if (!authorization.ok()) return authorization.status();
  grpc::ChannelArguments arguments;
  // A proxy of the environment is for the world outside.
  if (IsLoopback(address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (options.own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!options.tls_server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls_server_name);
  }
  return ServerChannel{.channel = grpc::CreateCustomChannel(address, *credentials, arguments),
                       .authorization = *std::move(authorization)};
}

}  // namespace quire::cli
