#include "server/listen_address.h"

#include "gtest/gtest.h"

namespace quire {
namespace {

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
