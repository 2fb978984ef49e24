#ifndef QUIRE_SERVER_ACCESS_CONTROL_H_
#define QUIRE_SERVER_ACCESS_CONTROL_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/access_tokens.h"
#include "server/server_config.h"

namespace quire {

// Whether what is asked of the listeners can be had: FAILED_PRECONDITION where tokens would cross a
// network in plaintext, or where a listener for operators would let in whoever reaches it.
absl::Status CheckListeners(const ServerConfig& config);

// Who may call? With a file of tokens, whoever has one of them; without, everybody, as no tenant.
//
// Any thread. A call goes on as the tenant it was let in as, whatever is loaded meanwhile.
class AccessControl {
 public:
  // The file of tokens; empty: there is none, and nobody is asked for one.
  explicit AccessControl(std::string path) : path_(std::move(path)) {}

  // Reads the file, again too. Where it is wrong all stays as it was, and the message says what is
  // wrong. Tenants keep what they have used of their quotas.
  absl::Status Load();
  bool asks_for_tokens() const { return !path_.empty(); }

  // `authorization`: the value of that key in a call's metadata; nothing: it has none, or several.
  // Null: everybody may. UNAUTHENTICATED: there is no token, or not one of ours.
  absl::StatusOr<std::shared_ptr<const Tenant>> Authenticate(
      std::optional<absl::string_view> authorization) const;

 private:
  std::shared_ptr<const AccessTokens> Tokens() const;

  const std::string path_;
  std::mutex load_mu_;  // taken before mu_, and held from reading to taking up
  mutable std::mutex mu_;
  std::shared_ptr<const AccessTokens> tokens_;  // guarded by mu_
};

}  // namespace quire

#endif  // QUIRE_SERVER_ACCESS_CONTROL_H_
