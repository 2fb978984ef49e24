#include "server/tls_files.h"

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

namespace quire {
namespace {

using testing::HasSubstr;

constexpr long kDay = 86'400;

// A key of its own and a certificate that it signs itself, in two files.
class Identity {
 public:
  Identity(const std::string& name, long seconds_left)
      : certificate(testing::TempDir() + name + ".pem"), key(testing::TempDir() + name + ".key") {
    EVP_PKEY* const pair = EVP_EC_gen("P-256");
    X509* const x509 = X509_new();
    X509_set_version(x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), -2 * kDay);
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

std::string ErrorOf(const TlsFiles& files) {
  const absl::Status status = ReadTlsFiles(files).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  return std::string(status.message());
}

TEST(TlsFilesTest, TheExpiryIsThatOfTheChainsFirstToExpire) {
  const Identity own("own", 30 * kDay);
  const Identity authority("authority", 3 * kDay);
  const auto read = ReadTlsFiles({own.certificate, own.key, authority.certificate});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_LT(absl::AbsDuration(read->expiry - absl::Now() - absl::Hours(24 * 30)),
            absl::Minutes(10));

  std::ofstream chain(own.certificate, std::ios::app);
  chain << std::ifstream(authority.certificate).rdbuf();
  chain.close();
  const auto sooner = ReadTlsFiles({own.certificate, own.key, ""});
  ASSERT_TRUE(sooner.ok()) << sooner.status();
  EXPECT_LT(absl::AbsDuration(sooner->expiry - absl::Now() - absl::Hours(24 * 3)),
            absl::Minutes(10));
}

TEST(TlsFilesTest, SaysWhichFileIsWrongAndHow) {
  const Identity own("own", kDay);
  const Identity other("other", kDay);
  const Identity expired("expired", -kDay);
  EXPECT_THAT(ErrorOf({own.certificate, "", ""}), HasSubstr("belong together"));
  EXPECT_THAT(ErrorOf({"", "", own.certificate}), HasSubstr("--tls-client-ca needs both"));
  EXPECT_EQ(ErrorOf({"/nonexistent", own.key, ""}),
            "--tls-cert /nonexistent: No such file or directory");
  EXPECT_EQ(ErrorOf({own.certificate, "/nonexistent", ""}),
            "--tls-key /nonexistent: No such file or directory");
  EXPECT_EQ(ErrorOf({own.key, own.key, ""}),
            absl::StrCat("--tls-cert ", own.key, ": has no certificate in PEM"));
  EXPECT_EQ(ErrorOf({own.certificate, own.certificate, ""}),
            absl::StrCat("--tls-key ", own.certificate, ": has no private key in plain PEM"));
  EXPECT_EQ(ErrorOf({own.certificate, other.key, ""}),
            absl::StrCat("--tls-key ", other.key, ": is not the key of ", own.certificate,
                         "'s first certificate"));
  EXPECT_THAT(ErrorOf({own.certificate, own.key, own.key}),
              HasSubstr(absl::StrCat("--tls-client-ca ", own.key)));
  EXPECT_THAT(ErrorOf({expired.certificate, expired.key, ""}),
              HasSubstr(absl::StrCat("--tls-cert ", expired.certificate, ": expired at ")));
}

}  // namespace
}  // namespace quire
