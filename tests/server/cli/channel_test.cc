// What a client's options about TLS and tokens must be, before anything is sent.
#include "server/cli/channel.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace quire::cli {
namespace {

using testing::HasSubstr;

std::string FileOf(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

std::string ErrorOf(const std::string& address, const ChannelOptions& options) {
  const absl::Status status = OpenChannel(address, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(OpenChannel, ATokenIsWhatAFileHoldsWithoutWhiteSpaceAroundIt) {
  const auto channel =
      OpenChannel("127.0.0.1:1", {.token_file = FileOf("token", " s3cret-token.~+/=\n")});
  ASSERT_TRUE(channel.ok()) << channel.status();
  EXPECT_EQ(channel->authorization, "Bearer s3cret-token.~+/=");
  EXPECT_EQ(OpenChannel("127.0.0.1:1", {})->authorization, "");
}

TEST(OpenChannel, ATokenDoesNotCrossANetworkInPlaintextUnlessAskedTo) {
  const std::string token = FileOf("token", "t");
  EXPECT_THAT(ErrorOf("10.0.0.1:1", {.token_file = token}), HasSubstr("10.0.0.1:1 in plaintext"));
  EXPECT_TRUE(OpenChannel("10.0.0.1:1", {.token_file = token, .allow_plaintext_auth = true}).ok());
  EXPECT_TRUE(OpenChannel("10.0.0.1:1", {.tls_ca = "system", .token_file = token}).ok());
  EXPECT_TRUE(OpenChannel("localhost:1", {.token_file = token}).ok());
}

TEST(OpenChannel, OptionsThatCannotWorkAreNamed) {
  const std::string empty = FileOf("empty", " \n");
  const std::string two = FileOf("two", "one two");
  EXPECT_EQ(ErrorOf("localhost:1", {.token_file = empty}), "--token-file " + empty + ": is empty");
  EXPECT_THAT(ErrorOf("localhost:1", {.token_file = two}), HasSubstr("must hold one token"));
  EXPECT_EQ(ErrorOf("localhost:1", {.token_file = "/nonexistent"}),
            "--token-file: cannot read /nonexistent: No such file or directory");
  EXPECT_EQ(ErrorOf("localhost:1", {.tls_ca = "/nonexistent"}),
            "--tls-ca: cannot read /nonexistent: No such file or directory");
  EXPECT_THAT(ErrorOf("localhost:1", {.tls_ca = "system", .tls_client_cert = two}),
              HasSubstr("belong together"));
  EXPECT_THAT(ErrorOf("localhost:1", {.tls_server_name = "name"}), HasSubstr("give --tls-ca"));
}

}  // namespace
}  // namespace quire::cli
