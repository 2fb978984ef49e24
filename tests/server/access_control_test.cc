#include "server/access_control.h"

#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/errors.h"

namespace quire {
namespace {

using testing::HasSubstr;

// SHA-256 of "abc": FIPS 180-2, appendix B.1.
constexpr char kFileOfAbc[] =
    R"({"tokens": [{"tenant": "search",
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}]})";

std::string FileOf(const std::string& text) {
  const std::string path = testing::TempDir() + "tokens.json";
  std::ofstream(path) << text;
  return path;
}

TEST(AccessControlTest, WithoutAFileEverybodyMayCall) {
  AccessControl access("");
  EXPECT_TRUE(access.Load().ok());
  EXPECT_FALSE(access.asks_for_tokens());
  EXPECT_EQ(access.Authenticate(std::nullopt).value(), nullptr);
  EXPECT_EQ(access.Authenticate("Bearer anything").value(), nullptr);
}

TEST(AccessControlTest, WithOneOnlyItsTokensDo) {
  AccessControl access(FileOf(kFileOfAbc));
  ASSERT_TRUE(access.Load().ok());
  EXPECT_EQ(access.Authenticate("Bearer abc").value()->name, "search");
  EXPECT_EQ(access.Authenticate("bearer abc").value()->name, "search");
  for (const char* wrong : {"", "abc", "Bearer", "Bearer ", "Bearer  abc", "Bearer abc ",
                            "Bearer ABC", "Basic abc", "Bearer abc,Bearer abc"}) {
    const absl::Status status = access.Authenticate(wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << wrong;
    EXPECT_EQ(ReasonOf(status), "UNAUTHENTICATED") << wrong;
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("abc"))) << wrong;
  }
  EXPECT_EQ(ReasonOf(access.Authenticate(std::nullopt).status()), "UNAUTHENTICATED");
}

TEST(AccessControlTest, AWrongFileChangesNothing) {
  const std::string path = FileOf(kFileOfAbc);
  AccessControl access(path);
  ASSERT_TRUE(access.Load().ok());
  FileOf("{");
  const absl::Status status = access.Load();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_TRUE(access.Authenticate("Bearer abc").ok());
  EXPECT_THAT(std::string(AccessControl("/nonexistent").Load().message()),
              HasSubstr("/nonexistent: No such file or directory"));
  EXPECT_THAT(std::string(AccessControl("/dev/zero").Load().message()),
              HasSubstr("/dev/zero: is not a regular file"));
  const std::string pipe = testing::TempDir() + "tokens.pipe";
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(std::string(AccessControl(pipe).Load().message()), HasSubstr("not a regular file"));
  EXPECT_THAT(std::string(AccessControl("/").Load().message()),
              HasSubstr("/: is not a regular file"));
}

// The error's first words, or nothing.
std::string Check(const ServerConfig& config) {
  const absl::Status status = CheckListeners(config);
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kFailedPrecondition);
  return std::string(status.message().substr(0, status.message().find(':')));
}

TEST(CheckListenersTest, TokensDoNotCrossANetworkInPlaintext) {
  ServerConfig config;
  config.access_tokens = "tokens.json";
  EXPECT_EQ(Check(config), "") << "loopback is no network";
  config.listen = "0.0.0.0:1";
  EXPECT_EQ(Check(config), "--listen 0.0.0.0");
  config.allow_plaintext_auth = true;
  EXPECT_EQ(Check(config), "");
  config.allow_plaintext_auth = false;
  config.tls.certificate = config.tls.key = "file";
  EXPECT_EQ(Check(config), "");
  config.tls = {};
  config.access_tokens = "";
  EXPECT_EQ(Check(config), "") << "there are none";
}

TEST(CheckListenersTest, AdministrationIsForThisMachineOrForAdminTokens) {
  ServerConfig config;
  config.admin_listen = "127.0.0.1:1";
  EXPECT_EQ(Check(config), "");
  config.admin_listen = "0.0.0.0:1";
  EXPECT_EQ(Check(config), "--admin-listen 0.0.0.0");
  config.tls.certificate = config.tls.key = "file";
  EXPECT_EQ(Check(config), "--admin-listen 0.0.0.0") << "TLS asks nobody who they are";
  config.access_tokens = "tokens.json";
  EXPECT_EQ(Check(config), "");
  config.tls = {};
  EXPECT_EQ(Check(config), "--admin-listen 0.0.0.0");
  config.allow_plaintext_auth = true;
  EXPECT_EQ(Check(config), "");
  config.admin_listen = "nowhere";
  EXPECT_EQ(Check(config), "--admin-listen nowhere");
}

}  // namespace
}  // namespace quire
