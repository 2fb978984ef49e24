#ifndef QUIRE_TESTS_SERVER_TLS_IDENTITY_H_
#define QUIRE_TESTS_SERVER_TLS_IDENTITY_H_

#include <cstdio>
#include <string>

#include "gtest/gtest.h"
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

namespace quire {

inline constexpr long kDay = 86'400;

// A key of its own and a certificate that it signs itself, in two files.
class Identity {
 public:
  Identity(const std::string& name, long seconds_left, EVP_PKEY* pair = EVP_EC_gen("P-256"),
           long seconds_old = 2 * kDay)
      : certificate(testing::TempDir() + name + ".pem"), key(testing::TempDir() + name + ".key") {
    X509* const x509 = X509_new();
    X509_set_version(x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), -seconds_old);
    X509_gmtime_adj(X509_getm_notAfter(x509), seconds_left);
    X509_set_pubkey(x509, pair);
    X509_sign(x509, pair, EVP_sha256());
    FILE* file = fopen(certificate.c_str(), "w");
    PEM_write_X509(file, x509);
    fclose(file);
    file = fopen(key.c_str(), "w");
    PEM_write_PrivateKey(file, pair, nullptr, nullptr, 0, nullptr, nullptr);
    fclose(file);
    X509_free(x509);
    EVP_PKEY_free(pair);
  }

  const std::string certificate;
  const std::string key;
};

}  // namespace quire

#endif  // QUIRE_TESTS_SERVER_TLS_IDENTITY_H_
