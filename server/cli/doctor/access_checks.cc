#include "server/cli/doctor/access_checks.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "server/access_control.h"
#include "server/tls_files.h"

namespace quire::cli {
namespace {

// As long as people and their tools need to notice and to act.
constexpr absl::Duration kExpiryNotice = absl::Hours(24 * 30);

Finding ProblemOf(const char* check, const absl::Status& status, const char* remedy) {
  return Problem(check, std::string(status.message()), remedy, ExitCode::kUsage);
}

Finding CertificateFinding(const TlsFiles& files, absl::Time now) {
  const absl::StatusOr<TlsIdentity> identity = ReadTlsFiles(files);
  if (!identity.ok()) {
    return ProblemOf("certificate", identity.status(),
                     "give a chain and its key in PEM that this user can read");
  }
  const absl::Duration left = identity->expiry - now;
  const std::string seen = absl::StrCat(files.certificate, " expires at ",
                                        absl::FormatTime(identity->expiry, absl::UTCTimeZone()),
                                        ", in ", absl::ToInt64Hours(left) / 24, " days");
  if (left > kExpiryNotice) return Ok("certificate", seen);
  return Warning("certificate", seen, "renew it; a running server takes up new files by itself");
}

}  // namespace

std::vector<Finding> AccessFindings(const ServerConfig& config, absl::Time now) {
  std::vector<Finding> findings;
  if (!config.access_tokens.empty() || !config.admin_listen.empty()) {
    if (const absl::Status status = CheckListeners(config); !status.ok()) {
      findings.push_back(ProblemOf("access", status,
                                   "give --tls-cert and --tls-key, and --access-tokens with "
                                   "--admin-listen; or listen on 127.0.0.1"));
    }
  }
  if (config.tls.is_on()) findings.push_back(CertificateFinding(config.tls, now));
  if (!config.access_tokens.empty()) {
    const absl::Status status = AccessControl(config.access_tokens).Load();
    findings.push_back(status.ok() ? Ok("tokens", absl::StrCat(config.access_tokens, " is right"))
                                   : ProblemOf("tokens", status, "deploy/ACCESS.md has the form"));
  }
  return findings;
}

}  // namespace quire::cli
