#ifndef QUIRE_SERVER_ACCESS_TOKENS_H_
#define QUIRE_SERVER_ACCESS_TOKENS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/tenant.h"

namespace quire {

// Which tenant does a bearer token stand for? Tokens are held as SHA-256 only, and so is the file:
//
//   {"tokens": [{"sha256": "9f86d0...", "tenant": "search", "requests_per_second": 10,
//                "tokens_per_minute": 60000, "max_concurrent_requests": 16, "max_priority": 0,
//                "admin": false}]}
//
// sha256 and tenant are required; a limit that is left out is none. Several tokens may be of one
// tenant, as while one replaces another: they share what it may use, and must agree on its rights.
//
// Constant after Parse; any thread.
class AccessTokens {
 public:
  // `where` begins errors. INVALID_ARGUMENT names the entry and the key. Quotas of tenants that are
  // in `before` too are taken over, with what has been used of them until `now`; null: there is
  // none.
  static absl::StatusOr<std::shared_ptr<const AccessTokens>> Parse(absl::string_view json,
                                                                   absl::string_view where,
                                                                   const AccessTokens* before,
                                                                   TimeUs now);

  // Null: nobody has this token, or it is empty. Takes the same time for every token of a length.
  std::shared_ptr<const Tenant> Find(absl::string_view token) const;
  size_t num_tokens() const { return entries_.size(); }

 private:
  using Digest = std::array<uint8_t, 32>;
  struct Entry {
    Digest digest;
    std::shared_ptr<const Tenant> tenant;
  };

  std::vector<Entry> entries_;
};

}  // namespace quire

#endif  // QUIRE_SERVER_ACCESS_TOKENS_H_
