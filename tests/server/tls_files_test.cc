#include "server/tls_files.h"

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/tls_identity.h"

namespace quire {
namespace {

using testing::HasSubstr;

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
  const Identity early("early", 3 * kDay, EVP_EC_gen("P-256"), -kDay);
  EXPECT_THAT(ErrorOf({early.certificate, early.key, ""}), HasSubstr(": is not valid before "));
  const Identity weak("weak", kDay, EVP_RSA_gen(512));
  EXPECT_THAT(ErrorOf({weak.certificate, weak.key, ""}),
              HasSubstr(absl::StrCat(weak.certificate, ": is refused by OpenSSL: ")));
  std::ofstream(own.certificate, std::ios::app) << "-----BEGIN CERTIFICATE-----\nx\n";
  EXPECT_THAT(ErrorOf({own.certificate, own.key, ""}),
              HasSubstr("is damaged after 1 certificates"));
  std::ofstream(own.certificate) << std::string((1 << 20) + 1, 'x');
  EXPECT_THAT(ErrorOf({own.certificate, own.key, ""}), HasSubstr("is larger than 1048576 bytes"));
  EXPECT_THAT(ErrorOf({expired.certificate, expired.key, ""}),
              HasSubstr(absl::StrCat("--tls-cert ", expired.certificate, ": expired at ")));
}

}  // namespace
}  // namespace quire
