#include "server/tls_files.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "server/read_file.h"

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
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;

constexpr size_t kMaxBytes = 1 << 20;

const char* LastError() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "no reason given" : reason;
}

absl::Status Wrong(absl::string_view flag, absl::string_view path, absl::string_view what) {
  ERR_clear_error();
  return absl::FailedPreconditionError(absl::StrCat(flag, " ", path, ": ", what));
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
  // The end of the text is an error too: that nothing begins any more.
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    return Wrong(flag, path,
                 absl::StrCat("is damaged after ", chain.size(), " certificates: ", LastError()));
  }
  if (chain.empty()) return Wrong(flag, path, "has no certificate in PEM");
  ERR_clear_error();
  return chain;
}

// Encrypted ones are not asked a password for: nobody is there to type it.
int NoPassword(char*, int, int, void*) { return 0; }

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm utc = {};
  ASN1_TIME_to_tm(time, &utc);
  return absl::FromTimeT(timegm(&utc));
}

// Whether TLS takes them: keys that are too short, digests that are too weak. Empty: it does.
std::string WhyRefused(const std::vector<Certificate>& chain, const Key& key) {
  const Context context(SSL_CTX_new(TLS_server_method()));
  bool is_taken = SSL_CTX_use_certificate(context.get(), chain.front().get()) == 1 &&
                  SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1;
  for (size_t i = 1; is_taken && i < chain.size(); ++i) {
    is_taken = SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1;
  }
  return is_taken ? "" : LastError();
}

}  // namespace

absl::StatusOr<TlsIdentity> ReadTlsFiles(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty()) {
    return absl::FailedPreconditionError(
        "--tls-cert and --tls-key belong together, and --tls-client-ca needs both");
  }
  absl::StatusOr<std::string> certificate = ReadFile("--tls-cert", files.certificate, kMaxBytes);
  if (!certificate.ok()) return certificate.status();
  const auto chain = ParseCertificates("--tls-cert", files.certificate, *certificate);
  if (!chain.ok()) return chain.status();
  absl::StatusOr<std::string> key_pem = ReadFile("--tls-key", files.key, kMaxBytes);
  if (!key_pem.ok()) return key_pem.status();
  const Key key(PEM_read_bio_PrivateKey(Open(*key_pem).get(), nullptr, &NoPassword, nullptr));
  if (key == nullptr) return Wrong("--tls-key", files.key, "has no private key in plain PEM");
  if (X509_check_private_key(chain->front().get(), key.get()) != 1) {
    return Wrong("--tls-key", files.key,
                 absl::StrCat("is not the key of ", files.certificate, "'s first certificate"));
  }
  absl::StatusOr<std::string> client_ca = "";
  if (!files.client_ca.empty()) {
    client_ca = ReadFile("--tls-client-ca", files.client_ca, kMaxBytes);
    if (!client_ca.ok()) return client_ca.status();
    const auto authorities = ParseCertificates("--tls-client-ca", files.client_ca, *client_ca);
    if (!authorities.ok()) return authorities.status();
  }
  if (const std::string why = WhyRefused(*chain, key); !why.empty()) {
    return Wrong("--tls-cert", files.certificate, absl::StrCat("is refused by OpenSSL: ", why));
  }
  absl::Time begin = absl::InfinitePast();
  absl::Time expiry = absl::InfiniteFuture();
  for (const Certificate& one : *chain) {
    begin = std::max(begin, TimeOf(X509_get0_notBefore(one.get())));
    expiry = std::min(expiry, TimeOf(X509_get0_notAfter(one.get())));
  }
  const absl::Time now = absl::Now();
  if (begin > now || expiry <= now) {
    return Wrong("--tls-cert", files.certificate,
                 absl::StrCat(begin > now ? "is not valid before " : "expired at ",
                              absl::FormatTime(begin > now ? begin : expiry, absl::UTCTimeZone())));
  }
  return TlsIdentity{.certificate = *std::move(certificate),
                     .key = *std::move(key_pem),
                     .client_ca = *std::move(client_ca),
                     .expiry = expiry};
}

}  // namespace quire
