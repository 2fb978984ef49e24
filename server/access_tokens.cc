#include "server/access_tokens.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "engine/json_fields.h"
#include "server/plain_name.h"
#include "server/strict_json.h"

namespace quire {
namespace {

constexpr size_t kMaxTokens = 4096;
constexpr size_t kMaxNameBytes = 64;
constexpr double kMaxRate = 1e9;
constexpr const char* kKeys[] = {
    "sha256",       "tenant", "requests_per_second", "tokens_per_minute", "max_concurrent_requests",
    "max_priority", "admin"};

// What an entry says of its tenant.
struct Rights {
  bool is_admin = false;
  int32_t max_priority = 0;
  QuotaLimits limits;

  bool operator==(const Rights&) const = default;
};

// A rate or a count, 0 where it is left out.
double LimitOf(JsonFields& fields, const char* key) {
  const double value = fields.Number(key).value_or(0);
  if (value >= 0 && value <= kMaxRate) return value;
  fields.Fail(absl::StrCat(key, " is ", value, "; expected 0 (none) to ", kMaxRate));
  return 0;
}

Rights ReadRights(JsonFields& fields) {
  Rights rights;
  rights.is_admin = fields.Bool("admin").value_or(false);
  rights.max_priority = fields.Int("max_priority").value_or(0);
  if (rights.max_priority < -100 || rights.max_priority > 100) {
    fields.Fail(absl::StrCat("max_priority is ", rights.max_priority, "; expected -100 to 100"));
  }
  rights.limits.requests_per_second = LimitOf(fields, "requests_per_second");
  rights.limits.tokens_per_minute = LimitOf(fields, "tokens_per_minute");
  rights.limits.max_concurrent_requests = fields.Int("max_concurrent_requests").value_or(0);
  if (rights.limits.max_concurrent_requests < 0) {
    fields.Fail(absl::StrCat("max_concurrent_requests is ", rights.limits.max_concurrent_requests,
                             "; expected 0 (none) or more"));
  }
  return rights;
}

void CheckKeys(const nlohmann::json& entry, JsonFields& fields) {
  for (const auto& [key, value] : entry.items()) {
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      fields.Fail(absl::StrCat("there is no key \"", absl::Utf8SafeCHexEscape(key), "\""));
    }
    if (value.is_null()) fields.Fail(absl::StrCat(key, " is null; leave it out for no limit"));
    // Whoever put a token there by mistake must not find it in the log.
    const bool is_text = key == "sha256" || key == "tenant";
    if (value.is_structured() || value.is_string() != is_text) {
      fields.Fail(absl::StrCat(key, " is ", value.type_name(), "; expected ",
                               is_text          ? "string"
                               : key == "admin" ? "boolean"
                                                : "number"));
    }
  }
}

std::array<uint8_t, 32> DigestOf(absl::string_view token) {
  std::array<uint8_t, 32> digest;
  SHA256(reinterpret_cast<const uint8_t*>(token.data()), token.size(), digest.data());
  return digest;
}

void ReadDigest(JsonFields& fields, std::array<uint8_t, 32>* digest) {
  const std::string hex = fields.String("sha256").value_or("");
  const bool is_hex = std::all_of(hex.begin(), hex.end(), absl::ascii_isxdigit);
  if (hex.size() != 2 * digest->size() || !is_hex) {
    fields.Fail(
        "sha256 must be the token's SHA-256 in 64 hexadecimal digits (`printf %s TOKEN | "
        "sha256sum`)");
    return;
  }
  const std::string bytes = absl::HexStringToBytes(hex);
  std::copy(bytes.begin(), bytes.end(), digest->begin());
  if (*digest == DigestOf("")) {
    fields.Fail("sha256 is that of the empty text, which is no token");
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const AccessTokens>> AccessTokens::Parse(absl::string_view json,
                                                                        absl::string_view where,
                                                                        const AccessTokens* before,
                                                                        TimeUs now) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
  };
  // The file, its list, an entry.
  const absl::StatusOr<nlohmann::json> parsed = ParseStrictJson(json, /*max_depth=*/3);
  if (!parsed.ok()) return wrong(parsed.status().message());
  const nlohmann::json& root = *parsed;
  if (!root.is_object() || root.size() != 1 || !root.contains("tokens") ||
      !root["tokens"].is_array()) {
    return wrong("must be a JSON object with one key, \"tokens\", a list");
  }
  const nlohmann::json& list = root["tokens"];
  if (list.empty() || list.size() > kMaxTokens) {
    return wrong(absl::StrCat(list.size(), " tokens; expected 1 to ", kMaxTokens));
  }

  std::map<std::string, std::shared_ptr<Quota>> quotas;
  if (before != nullptr) {
    for (const Entry& entry : before->entries_) quotas[entry.tenant->name] = entry.tenant->quota;
  }
  auto tokens = std::make_shared<AccessTokens>();
  std::set<Digest> digests;
  std::map<std::string, std::pair<Rights, std::shared_ptr<const Tenant>>> tenants;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string entry_name = absl::StrCat(where, ": tokens[", i, "]");
    if (!list[i].is_object()) return wrong(absl::StrCat("tokens[", i, "] is not an object"));
    JsonFields fields(list[i], entry_name);
    CheckKeys(list[i], fields);
    Entry entry;
    ReadDigest(fields, &entry.digest);
    const std::string name = fields.String("tenant").value_or("");
    if (!IsPlainName(name, kMaxNameBytes)) {
      fields.Fail(absl::StrCat("tenant must be 1 to ", kMaxNameBytes, " of [A-Za-z0-9._-]"));
    }
    const Rights rights = ReadRights(fields);
    if (!fields.status().ok()) return fields.status();
    if (!digests.insert(entry.digest).second) {
      return wrong(absl::StrCat("tokens[", i, "] has the sha256 of an entry before it"));
    }
    auto& [known_rights, tenant] = tenants[name];
    if (tenant == nullptr) {
      known_rights = rights;
      auto made = std::make_shared<Tenant>();
      made->name = name;
      made->is_admin = rights.is_admin;
      made->max_priority = rights.max_priority;
      const auto known = quotas.find(name);
      made->quota = known != quotas.end() ? known->second : std::make_shared<Quota>();
      tenant = std::move(made);
    } else if (!(known_rights == rights)) {
      return wrong(absl::StrCat("tokens[", i, "] gives tenant ", name,
                                " other rights than an entry before it"));
    }
    entry.tenant = tenant;
    tokens->entries_.push_back(std::move(entry));
  }
  // Only now that all of it is right: what is in use may have the same quotas.
  for (const auto& [name, known] : tenants) known.second->quota->SetLimits(known.first.limits, now);
  return tokens;
}

std::shared_ptr<const Tenant> AccessTokens::Find(absl::string_view token) const {
  if (token.empty()) return nullptr;
  const Digest digest = DigestOf(token);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {  // all of them, whichever it is
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry;
  }
  return found == nullptr ? nullptr : found->tenant;
}

}  // namespace quire
