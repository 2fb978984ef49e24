#include "server/listen_address.h"

#include "gtest/gtest.h"

namespace quire {
namespace {

TEST(CheckListenAddress, WantsHostAndPort) {
  for (const char* address : {"127.0.0.1:0", "[::1]:50051", "host.example:65535"}) {
    EXPECT_TRUE(CheckListenAddress("--listen", address).ok()) << address;
  }
  for (const char* address : {"", ":1", "9400", "127.0.0.1", "::1:5", "a:65536", "a:1,b:2"}) {
    EXPECT_FALSE(CheckListenAddress("--listen", address).ok()) << address;
  }
}

TEST(CheckListenAddress, OfAListenerWithoutIpv6IsToldSo) {
  EXPECT_TRUE(CheckIpv4ListenAddress("--metrics-listen", "127.0.0.1:0").ok());
  EXPECT_TRUE(CheckIpv4ListenAddress("--metrics-listen", "localhost:9400").ok());
  const absl::Status status = CheckIpv4ListenAddress("--metrics-listen", "[::1]:0");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "--metrics-listen [::1]:0: must be host:port over IPv4, such as 127.0.0.1:9400 (port "
            "0: any free one)");
  EXPECT_FALSE(CheckIpv4ListenAddress("--metrics-listen", "").ok());
}

TEST(IsLoopback, IsTrueOfThisMachineOnly) {
  for (const char* address : {"127.0.0.1:50051", "127.8.9.10:0", "localhost:1", "localhost",
                              "[::1]:50051", "unix:/run/quire.sock"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address : {"0.0.0.0:50051", "[::]:50051", "localhost.example.com:1",
                              "localhostess:1", "127.evil.example.com:1", "127.0.0.1.example.com:1",
                              "128.0.0.1:1", "[::1].example:1", "[::12]:1", "example.com:1", ""}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

}  // namespace
}  // namespace quire
