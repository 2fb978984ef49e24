#include "server/tls_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

namespace quire {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

absl::Status Wrong(absl::string_view flag, absl::string_view path, absl::string_view what) {
  ERR_clear_error();
  return absl::FailedPreconditionError(absl::StrCat(flag, " ", path, ": ", what));
}

absl::StatusOr<std::string> Read(absl::string_view flag, const std::string& path) {
  constexpr size_t kMaxBytes = 1 << 20;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) return Wrong(flag, path, std::strerror(errno));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

Bio Open(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

absl::StatusOr<std::vector<Certificate>> ParseCertificates(absl::string_view flag,
                                                           const std::string& path,
                                                           const std::string& pem) {
  const Bio bio = Open(pem);
  std::vector<Certificate> chain;
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    chain.emplace_back(certificate);
  }
  if (chain.empty()) return Wrong(flag, path, "has no certificate in PEM");
  ERR_clear_error();  // the end of the text is an error to it
  return chain;
}

// Encrypted ones are not asked a password for: nobody is there to type it.
int NoPassword(char*, int, int, void*) { return 0; }

absl::Time ExpiryOf(const Certificate& certificate) {
  std::tm utc = {};
  ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &utc);
  return absl::FromTimeT(timegm(&utc));
}

}  // namespace

absl::StatusOr<TlsIdentity> ReadTlsFiles(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty()) {
    return absl::FailedPreconditionError(
        "--tls-cert and --tls-key belong together, and --tls-client-ca needs both");
  }
  absl::StatusOr<std::string> certificate = Read("--tls-cert", files.certificate);
  if (!certificate.ok()) return certificate.status();
  const auto chain = ParseCertificates("--tls-cert", files.certificate, *certificate);
  if (!chain.ok()) return chain.status();
  absl::StatusOr<std::string> key_pem = Read("--tls-key", files.key);
  if (!key_pem.ok()) return key_pem.status();
  const Key key(PEM_read_bio_PrivateKey(Open(*key_pem).get(), nullptr, &NoPassword, nullptr));
  if (key == nullptr) return Wrong("--tls-key", files.key, "has no private key in plain PEM");
  if (X509_check_private_key(chain->front().get(), key.get()) != 1) {
    return Wrong("--tls-key", files.key,
                 absl::StrCat("is not the key of ", files.certificate, "'s first certificate"));
  }
  absl::StatusOr<std::string> client_ca = "";
  if (!files.client_ca.empty()) {
    client_ca = Read("--tls-client-ca", files.client_ca);
    if (!client_ca.ok()) return client_ca.status();
    const auto authorities = ParseCertificates("--tls-client-ca", files.client_ca, *client_ca);
    if (!authorities.ok()) return authorities.status();
  }
  absl::Time expiry = absl::InfiniteFuture();
  for (const Certificate& one : *chain) expiry = std::min(expiry, ExpiryOf(one));
  if (expiry <= absl::Now()) {
    return Wrong("--tls-cert", files.certificate,
                 absl::StrCat("expired at ", absl::FormatTime(expiry, absl::UTCTimeZone())));
  }
  return TlsIdentity{.certificate = *std::move(certificate),
                     .key = *std::move(key_pem),
                     .client_ca = *std::move(client_ca),
                     .expiry = expiry};
}

}  // namespace quire
