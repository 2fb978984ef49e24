#include "server/tls_certificates.h"

#include "absl/time/time.h"
#include "spdlog/spdlog.h"

#include "server/steady_now.h"

namespace quire {

absl::Status TlsCertificates::Load() {
  if (!is_on()) return absl::OkStatus();
  std::lock_guard<std::mutex> lock(mu_);
  return LoadLocked(SteadyNow());
}

absl::Status TlsCertificates::LoadLocked(TimeUs now) {
  looked_at_ = now;
  absl::StatusOr<TlsIdentity> read = ReadTlsFiles(files_);
  told_ = std::string(read.status().message());
  if (!read.ok()) return read.status();
  if (identity_ != nullptr && identity_->certificate == read->certificate &&
      identity_->key == read->key && identity_->client_ca == read->client_ca) {
    return absl::OkStatus();
  }
  identity_ = std::make_shared<TlsIdentity>(*std::move(read));
  spdlog::info("TLS with {}, which expires at {}", files_.certificate,
               absl::FormatTime(identity_->expiry, absl::UTCTimeZone()));
  return absl::OkStatus();
}

std::shared_ptr<const TlsIdentity> TlsCertificates::Get(TimeUs now) {
  std::lock_guard<std::mutex> lock(mu_);
  if (now - looked_at_ >= kRefresh) {
    const std::string told = told_;
    const absl::Status status = LoadLocked(now);
    if (!status.ok() && status.message() != told) {
      spdlog::error("{}; what is in use stays in use", std::string(status.message()));
    }
  }
  return identity_;
}

}  // namespace quire
