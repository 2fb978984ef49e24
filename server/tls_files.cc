#include "server/tls_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
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

absl::StatusOr<Bio> Open(absl::string_view flag, const std::string& path) {
  Bio bio(BIO_new_file(path.c_str(), "r"));
  if (bio == nullptr) return Wrong(flag, path, std::strerror(errno));
  return bio;
}

absl::StatusOr<std::vector<Certificate>> ReadCertificates(absl::string_view flag,
                                                          const std::string& path) {
  absl::StatusOr<Bio> bio = Open(flag, path);
  if (!bio.ok()) return bio.status();
  std::vector<Certificate> chain;
  while (X509* certificate = PEM_read_bio_X509(bio->get(), nullptr, nullptr, nullptr)) {
    chain.emplace_back(certificate);
  }
  if (chain.empty()) return Wrong(flag, path, "has no certificate in PEM");
  ERR_clear_error();  // the end of the file is an error to it
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

absl::StatusOr<absl::Time> CheckTlsFiles(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty()) {
    return absl::FailedPreconditionError(
        "--tls-cert and --tls-key belong together, and --tls-client-ca needs both");
  }
  auto chain = ReadCertificates("--tls-cert", files.certificate);
  if (!chain.ok()) return chain.status();
  absl::StatusOr<Bio> bio = Open("--tls-key", files.key);
  if (!bio.ok()) return bio.status();
  const Key key(PEM_read_bio_PrivateKey(bio->get(), nullptr, &NoPassword, nullptr));
  if (key == nullptr) return Wrong("--tls-key", files.key, "has no private key in plain PEM");
  if (X509_check_private_key(chain->front().get(), key.get()) != 1) {
    return Wrong("--tls-key", files.key,
                 absl::StrCat("is not the key of ", files.certificate, "'s first certificate"));
  }
  if (!files.client_ca.empty()) {
    auto authorities = ReadCertificates("--tls-client-ca", files.client_ca);
    if (!authorities.ok()) return authorities.status();
  }
  absl::Time expiry = absl::InfiniteFuture();
  for (const Certificate& certificate : *chain) expiry = std::min(expiry, ExpiryOf(certificate));
  if (expiry <= absl::Now()) {
    return Wrong("--tls-cert", files.certificate,
                 absl::StrCat("expired at ", absl::FormatTime(expiry, absl::UTCTimeZone())));
  }
  return expiry;
}

}  // namespace quire
