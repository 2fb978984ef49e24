#include "server/access_control.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

#include "server/errors.h"
#include "server/listen_address.h"

namespace quire {
namespace {

constexpr size_t kMaxFileBytes = 4 << 20;
constexpr char kFlag[] = "--access-tokens";

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return absl::FailedPreconditionError(
        absl::StrCat(kFlag, " ", path, ": cannot be read: ", std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) {
    return absl::FailedPreconditionError(absl::StrCat(kFlag, " ", path, ": is larger than 4 MiB"));
  }
  return text;
}

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
  const absl::StatusOr<std::string> text = ReadFile(path_);
  if (!text.ok()) return text.status();
  std::lock_guard<std::mutex> lock(mu_);
  absl::StatusOr<std::shared_ptr<const AccessTokens>> tokens =
      AccessTokens::Parse(*text, absl::StrCat(kFlag, " ", path_), tokens_.get());
  if (!tokens.ok()) return absl::FailedPreconditionError(tokens.status().message());
  tokens_ = *std::move(tokens);
  spdlog::info("{} tokens from {}", tokens_->num_tokens(), path_);
  return absl::OkStatus();
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
  std::shared_ptr<const AccessTokens> tokens;
  {
    std::lock_guard<std::mutex> lock(mu_);
    tokens = tokens_;
  }
  std::shared_ptr<const Tenant> tenant = tokens->Find(authorization->substr(kScheme.size()));
  if (tenant == nullptr) return refuse("this server does not know the token");
  return tenant;
}

}  // namespace quire
