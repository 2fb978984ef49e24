#ifndef QUIRE_SERVER_TLS_FILES_H_
#define QUIRE_SERVER_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace quire {

// What a server shows who it is with, PEM files. Empty: plaintext.
struct TlsFiles {
  std::string certificate;  // the chain, the server's own first
  std::string key;
  std::string client_ca;  // whose clients are let in; empty: any, without a certificate

  bool is_on() const { return !certificate.empty() || !key.empty() || !client_ca.empty(); }
};

// What those files held, in PEM.
struct TlsIdentity {
  std::string certificate;
  std::string key;
  std::string client_ca;  // empty: no file
  absl::Time expiry;      // of the first certificate of the chain to expire
};

// Reads them, and makes sure that they are right now: gRPC would open a port with them in any case
// and fail every handshake. FAILED_PRECONDITION names the file and what is wrong: not readable, not
// PEM, damaged, too weak for OpenSSL, the key is not that of the certificate, expired.
absl::StatusOr<TlsIdentity> ReadTlsFiles(const TlsFiles& files);

}  // namespace quire

#endif  // QUIRE_SERVER_TLS_FILES_H_
