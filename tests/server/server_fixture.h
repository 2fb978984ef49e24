#ifndef QUIRE_TESTS_SERVER_SERVER_FIXTURE_H_
#define QUIRE_TESTS_SERVER_SERVER_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/server.h"
#include "tests/server/test_client.h"
#include "tests/testing/byte_text.h"
#include "tests/testing/fake_engine.h"

namespace quire {

// A server over a FakeEngine on a port of its own, and clients of it.
class ServerFixture : public testing::Test {
 protected:
  // Port open, nothing loaded.
  void Open(ServerLimits limits = {}) {
    ServerConfig config;
    config.limits = limits;
    Open(std::move(config));
  }
  void Open(ServerConfig config) {
    config.listen = "127.0.0.1:0";
    config.model_aliases = {"fake"};
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<TestClient>(server_->port());
  }
  void Load(ModelInfo info = FakeModelInfo(), std::unique_ptr<ModelText> text = MakeByteText()) {
    auto engine = std::make_unique<FakeEngine>(std::move(info));
    engine_ = engine.get();
    server_->Serve(std::move(engine), std::move(text));
  }
  void StartServer(ServerLimits limits = {}) {
    Open(limits);
    Load();
  }

  static v1::GenerateRequest TextRequest(const std::string& text) {
    v1::GenerateRequest request;
    request.set_text(text);
    return request;
  }
  static v1::GenerateRequest IdsRequest(const std::vector<uint32_t>& ids) {
    v1::GenerateRequest request;
    request.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
    return request;
  }
  static std::vector<int32_t> Bytes(const std::string& text) {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
    return ids;
  }
  // The next event must be there and be of this kind.
  static v1::GenerateResponse Next(ClientStream& stream) {
    v1::GenerateResponse event;
    EXPECT_TRUE(stream.ReadMessage(&event)) << "the stream ended";
    return event;
  }
  // The whole of a request that is over at once.
  Answer Ask(const v1::GenerateRequest& request, const CallOptions& options = {}) {
    return client_->GenerateAll(request, options);
  }

  std::unique_ptr<Server> server_;
  FakeEngine* engine_ = nullptr;  // owned by server_
  std::unique_ptr<TestClient> client_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_SERVER_SERVER_FIXTURE_H_
