// The server over the real engine: a tiny model, loaded from its files.
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/server.h"
#include "tests/server/test_client.h"
#include "tests/testing/golden_data.h"
#include "tests/testing/test_files.h"

namespace quire {
namespace {

using testing::HasSubstr;

std::unique_ptr<Server> StartServer(const EngineConfig& engine) {
  ServerConfig config;
  config.listen = "127.0.0.1:0";
  config.engine = engine;
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

absl::Status Load(Server& server) {
  return server.LoadModel([](absl::string_view, double) {});
}

class RealEngineTest : public testing::Test {
 protected:
  void SetUp() override {
    config_.model_path = FindGolden("models/llama_mha");
    if (config_.model_path.empty()) GTEST_SKIP() << "no golden model llama_mha";
    config_.num_threads = 2;
    config_.block_size = 32;
    config_.max_num_seqs = 16;
    config_.max_num_batched_tokens = 64;
    config_.kv_cache_bytes = 1 << 20;
  }

  static v1::GenerateRequest RequestOf(std::mt19937& random) {
    v1::GenerateRequest request;
    for (uint32_t i = 1 + random() % 60; i > 0; --i) {
      request.mutable_token_ids()->add_ids(3 + random() % 500);
    }
    request.mutable_params()->set_max_tokens(1 + random() % 40);
    request.mutable_params()->set_ignore_eos(true);
    request.mutable_params()->set_seed(static_cast<int64_t>(random()));
    return request;
  }

  EngineConfig config_;
};

TEST_F(RealEngineTest, AModelWithoutATokenizerIsServedByTokenIds) {
  auto server = StartServer(config_);
  ASSERT_TRUE(Load(*server).ok());
  EXPECT_EQ(server->served_model_name(), "llama_mha");
  TestClient client(server->port());
  int num_compared = 0;
  for (const nlohmann::json& row : ReadJsonLines(FindGolden("models/llama_mha/greedy.jsonl"))) {
    v1::GenerateRequest request;
    for (const uint32_t id : row["prompt"]) request.mutable_token_ids()->add_ids(id);
    request.mutable_params()->set_temperature(0);
    request.mutable_params()->set_max_tokens(8);
    request.mutable_params()->set_ignore_eos(true);
    const Answer answer = client.GenerateAll(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.message;
    EXPECT_EQ(answer.text(), "");
    const std::vector<uint32_t> token_ids = answer.token_ids();
    ASSERT_EQ(token_ids.size(), 8u);
    // As far as the golden tokens are well separated for bf16: 0.25 of the logits' deviation.
    for (size_t i = 0; i < token_ids.size() && row["gaps"][i] > 0.25 * 3.113; ++i) {
      EXPECT_EQ(token_ids[i], row["tokens"][i].get<uint32_t>());
      ++num_compared;
    }
  }
  EXPECT_GT(num_compared, 10);
}

TEST_F(RealEngineTest, LeaversChangeNobodysTokensAndAllBlocksComeBack) {
  constexpr uint32_t kSeed = 4;
  constexpr int kNumStreams = 60;
  auto server = StartServer(config_);
  ASSERT_TRUE(Load(*server).ok());
  std::mt19937 random(kSeed);
  std::vector<v1::GenerateRequest> requests;
  std::vector<std::vector<uint32_t>> alone;
  TestClient client(server->port());
  for (int i = 0; i < kNumStreams; ++i) {
    requests.push_back(RequestOf(random));
    const Answer answer = client.GenerateAll(requests.back());
    ASSERT_TRUE(answer.status.ok()) << answer.status.message;
    alone.push_back(answer.token_ids());
    EXPECT_EQ(alone.back().size(), requests.back().params().max_tokens());
  }
  std::vector<std::unique_ptr<ClientStream>> streams;
  for (const auto& request : requests) streams.push_back(client.Generate(request));
  for (int i = 0; i < kNumStreams; i += 5) streams[i]->Cancel();
  for (int i = 0; i < kNumStreams; ++i) {
    const Answer answer = TestClient::ReadAll(*streams[i]);
    if (i % 5 == 0 && !answer.status.ok()) continue;
    ASSERT_TRUE(answer.status.ok()) << answer.status.message;
    EXPECT_EQ(answer.token_ids(), alone[i]) << "seed " << kSeed << " stream " << i;
  }
  // Cancelled sequences end within a step: a few requests later they are gone.
  for (int i = 0; i < 100 && server->stats().blocks_held > 0; ++i) {
    ASSERT_TRUE(client.GenerateAll(requests[0]).status.ok());
  }
  EXPECT_EQ(server->stats().blocks_held, 0);
  EXPECT_GT(server->stats().max_seqs_in_step, 1);
  EXPECT_EQ(server->stats().num_waiting, 0);
  EXPECT_EQ(server->Drain({.timeout_ms = 30'000}).ended, 0);
}

TEST_F(RealEngineTest, DrainEndsARealEngineInTheMiddle) {
  auto server = StartServer(config_);
  ASSERT_TRUE(Load(*server).ok());
  TestClient client(server->port());
  v1::GenerateRequest request;
  request.mutable_token_ids()->add_ids(5);
  request.mutable_params()->set_ignore_eos(true);
  auto stream = client.Generate(request);
  v1::GenerateResponse event;
  ASSERT_TRUE(stream->ReadMessage(&event));
  ASSERT_TRUE(stream->ReadMessage(&event));
  server->Drain({});
  const Answer answer = TestClient::ReadAll(*stream);
  EXPECT_TRUE(answer.status.ok() || answer.status.Summary() == "UNAVAILABLE/DRAINING")
      << answer.status.message;
}

TEST(LoadModelTest, WhatCannotBeLoadedIsNamedAndThePortStaysOpen) {
  EngineConfig config;
  config.model_path = "no/such/model";
  auto server = StartServer(config);
  const absl::Status missing = Load(*server);
  EXPECT_FALSE(missing.ok());
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no/such/model"));
  TestClient client(server->port());
  v1::GenerateRequest request;
  request.set_text("x");
  EXPECT_EQ(client.GenerateAll(request).Shape(), "UNAVAILABLE/MODEL_LOADING");

  config.model_path = FindGolden("bad_files/tokenizer_truncated");
  if (config.model_path.empty()) GTEST_SKIP() << "no golden file tokenizer_truncated";
  server = StartServer(config);
  EXPECT_THAT(std::string(Load(*server).message()), HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace quire
