#include "server/access_control.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

#include "server/errors.h"
#include "server/listen_address.h"
#include "server/read_file.h"
#include "server/steady_now.h"

namespace quire {
namespace {

constexpr size_t kMaxFileBytes = 4 << 20;
constexpr char kFlag[] = "--access-tokens";

absl::Status CheckTokensAreHidden(absl::string_view flag, const std::string& listen,
                                  const ServerConfig& config) {
  if (config.access_tokens.empty() || config.tls.is_on() || IsLoopback(listen) ||
      config.allow_plaintext_auth) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(flag, " ", listen, " with ", kFlag,
                   ": tokens would cross the network in plaintext; give --tls-cert and --tls-key, "
                   "or --allow-plaintext-auth where something in front of it encrypts"));
}

}  // namespace

absl::Status CheckListeners(const ServerConfig& config) {
  absl::Status status = CheckListenAddress("--listen", config.listen);
  if (status.ok() && !config.metrics_listen.empty()) {
    status = CheckIpv4ListenAddress("--metrics-listen", config.metrics_listen);
  }
  if (status.ok()) status = CheckTokensAreHidden("--listen", config.listen, config);
  if (!status.ok() || config.admin_listen.empty()) return status;
  status = CheckListenAddress("--admin-listen", config.admin_listen);
  if (status.ok()) status = CheckTokensAreHidden("--admin-listen", config.admin_listen, config);
  if (status.ok() && config.access_tokens.empty() && !IsLoopback(config.admin_listen)) {
    status = absl::FailedPreconditionError(
        absl::StrCat("--admin-listen ", config.admin_listen,
                     ": whoever reaches it could end this server; listen on 127.0.0.1, or give ",
                     kFlag, " with a token that has \"admin\": true"));
  }
  return status;
}

absl::Status AccessControl::Load() {
  if (!asks_for_tokens()) return absl::OkStatus();
  // Calls go on by the tokens there are, for as long as it takes to read new ones.
  std::lock_guard<std::mutex> load_lock(load_mu_);
  const absl::StatusOr<std::string> text = ReadFile(kFlag, path_, kMaxFileBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::shared_ptr<const AccessTokens>> tokens =
      AccessTokens::Parse(*text, absl::StrCat(kFlag, " ", path_), Tokens().get(), SteadyNow());
  if (!tokens.ok()) return absl::FailedPreconditionError(tokens.status().message());
  spdlog::info("{} tokens from {}", (*tokens)->num_tokens(), path_);
  std::lock_guard<std::mutex> lock(mu_);
  tokens_ = *std::move(tokens);
  return absl::OkStatus();
}

std::shared_ptr<const AccessTokens> AccessControl::Tokens() const {
  std::lock_guard<std::mutex> lock(mu_);
  return tokens_;
}

absl::StatusOr<std::shared_ptr<const Tenant>> AccessControl::Authenticate(
    std::optional<absl::string_view> authorization) const {
  if (!asks_for_tokens()) return nullptr;
  // RFC 6750; the scheme's case does not matter (RFC 9110, 11.1).
  constexpr absl::string_view kScheme = "Bearer ";
  const auto refuse = [](absl::string_view why) {
    return MakeError(absl::StatusCode::kUnauthenticated, "UNAUTHENTICATED", why);
  };
  if (!authorization || !absl::StartsWithIgnoreCase(*authorization, kScheme)) {
    return refuse("this server asks for metadata \"authorization: Bearer TOKEN\", once");
  }
  std::shared_ptr<const Tenant> tenant = Tokens()->Find(authorization->substr(kScheme.size()));
  if (tenant == nullptr) return refuse("this server does not know the token");
  return tenant;
}

}  // namespace quire
