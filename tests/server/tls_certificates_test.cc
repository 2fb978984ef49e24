#include "server/tls_certificates.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "server/steady_now.h"
#include "tests/server/tls_identity.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class TlsCertificatesTest : public testing::Test {
 protected:
  TlsCertificatesTest() { Install(first_.certificate, first_.key); }

  static void Replace(const std::string& source, const std::string& target) {
    fs::copy_file(source, target + ".new", fs::copy_options::overwrite_existing);
    fs::rename(target + ".new", target);
  }
  void Install(const std::string& certificate, const std::string& key) const {
    Replace(key, files_.key);
    Replace(certificate, files_.certificate);
  }
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const Identity first_{"first", kDay};
  const Identity second_{"second", kDay};
  const TlsFiles files_ = {testing::TempDir() + "tls.pem", testing::TempDir() + "tls.key", ""};
  TlsCertificates certificates_{files_};
};

TEST_F(TlsCertificatesTest, NewFilesAreTakenUpWhenItIsTimeToLook) {
  ASSERT_TRUE(certificates_.Load().ok());
  const TimeUs loaded_at = SteadyNow();
  Install(second_.certificate, second_.key);
  EXPECT_EQ(certificates_.Get(loaded_at)->certificate, TextOf(first_.certificate));
  EXPECT_EQ(certificates_.Get(loaded_at + TlsCertificates::kRefresh)->certificate,
            TextOf(second_.certificate));
}

TEST_F(TlsCertificatesTest, APairHalfReplacedIsNotTakenUp) {
  ASSERT_TRUE(certificates_.Load().ok());
  Replace(second_.key, files_.key);
  EXPECT_EQ(certificates_.Load().code(), absl::StatusCode::kFailedPrecondition);
  TimeUs now = SteadyNow() + TlsCertificates::kRefresh;
  EXPECT_EQ(certificates_.Get(now)->key, TextOf(first_.key));
  Replace(second_.certificate, files_.certificate);
  now += TlsCertificates::kRefresh;
  EXPECT_EQ(certificates_.Get(now)->key, TextOf(second_.key));
  EXPECT_EQ(certificates_.Get(now)->certificate, TextOf(second_.certificate));
}

TEST_F(TlsCertificatesTest, HandshakesAndReloadsMayComeTogether) {
  ASSERT_TRUE(certificates_.Load().ok());
  std::atomic<bool> stop = false;
  std::vector<std::thread> handshakes;
  for (int i = 0; i < 3; ++i) {
    handshakes.emplace_back([&] {
      // Each look is later than the last by a refresh: all of them read the files.
      for (TimeUs now = SteadyNow(); !stop.load(); now += TlsCertificates::kRefresh) {
        const std::shared_ptr<const TlsIdentity> shown = certificates_.Get(now);
        const bool is_first = shown->certificate == TextOf(first_.certificate);
        const Identity& whose = is_first ? first_ : second_;
        EXPECT_EQ(shown->key, TextOf(whose.key)) << "a pair is never mixed";
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const Identity& next = i % 2 == 0 ? second_ : first_;
    Install(next.certificate, next.key);
    EXPECT_TRUE(certificates_.Load().ok());
  }
  stop.store(true);
  for (std::thread& handshake : handshakes) handshake.join();
}

}  // namespace
}  // namespace quire
