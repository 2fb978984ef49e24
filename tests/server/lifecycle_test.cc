// From the open port to the closed one: loading, health, drain.
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "grpc/health/v1/health.pb.h"

#include "quire/v1/model.pb.h"
#include "tests/server/server_fixture.h"

namespace quire {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using testing::HasSubstr;

class LifecycleTest : public ServerFixture {
 protected:
  // "SERVING", or the summary of the status.
  std::string Check(const std::string& name) {
    HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    const ClientStatus status = client_->Call("/grpc.health.v1.Health/Check", request, &response);
    return status.ok() ? HealthCheckResponse::ServingStatus_Name(response.status())
                       : status.Summary();
  }
  std::unique_ptr<ClientStream> Watch(const std::string& name) {
    HealthCheckRequest request;
    request.set_service(name);
    return client_->OpenStream("/grpc.health.v1.Health/Watch", request.SerializeAsString());
  }
  static std::string NextHealth(ClientStream& watch) {
    HealthCheckResponse response;
    if (!watch.ReadMessage(&response)) return watch.Finish().Summary();
    return HealthCheckResponse::ServingStatus_Name(response.status());
  }
};

TEST_F(LifecycleTest, ThePortIsOpenBeforeTheModelIsLoaded) {
  Open();
  EXPECT_GT(server_->port(), 0);
  EXPECT_EQ(server_->address(), absl::StrCat("127.0.0.1:", server_->port()));
  const Answer answer = Ask(TextRequest("x"));
  EXPECT_EQ(answer.Shape(), "UNAVAILABLE/MODEL_LOADING");
  EXPECT_GT(answer.status.retry.retry_delay().seconds(), 0);
  v1::ListModelsResponse models;
  EXPECT_EQ(client_->Call("/quire.v1.ModelService/ListModels", v1::ListModelsRequest(), &models)
                .Summary(),
            "UNAVAILABLE/MODEL_LOADING");
  EXPECT_EQ(Check(""), "NOT_SERVING");
  EXPECT_EQ(Check("liveness"), "SERVING");
  Load();
  EXPECT_EQ(Check(""), "SERVING");
  EXPECT_EQ(server_->served_model_name(), "Fake-256");
  EXPECT_EQ(server_->model_info().vocab_size, 300);
}

TEST_F(LifecycleTest, AServerThatNeverLoadedEndsCleanly) {
  Open();
  EXPECT_EQ(server_->Drain({}).ended, 0);
}

TEST_F(LifecycleTest, APortInUseIsNamed) {
  Open();
  ServerConfig config;
  config.listen = server_->address();
  const auto second = Server::Start(config);
  EXPECT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(server_->address()));
  config.listen = "no such address";
  EXPECT_THAT(std::string(Server::Start(config).status().message()), HasSubstr(config.listen));
}

TEST_F(LifecycleTest, AnAddressIsAHostAndAPort) {
  ServerConfig config;
  for (const char* listen : {"127.0.0.1", "localhost:", ":50051", "::1", "[::1]", "127.0.0.1:http",
                             "127.0.0.1:65536", "unix:/tmp/quire.sock", "unix:x:1"}) {
    config.listen = listen;
    const absl::Status status = Server::Start(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << listen;
    EXPECT_THAT(std::string(status.message()), HasSubstr(listen));
  }
  config.listen = "localhost:0";
  EXPECT_TRUE(Server::Start(config).ok());
}

TEST_F(LifecycleTest, HealthKnowsItsNamesAndTellsChanges) {
  ServerConfig config;
  config.liveness_timeout_ms = 100;
  Open(std::move(config));
  auto ready = Watch("");
  auto alive = Watch("liveness");
  EXPECT_EQ(NextHealth(*ready), "NOT_SERVING");
  EXPECT_EQ(NextHealth(*alive), "SERVING");
  auto unknown = Watch("nonsense");
  EXPECT_EQ(NextHealth(*unknown), "SERVICE_UNKNOWN");
  Load();
  EXPECT_EQ(NextHealth(*ready), "SERVING");
  EXPECT_EQ(Check("quire.v1.GenerationService"), "SERVING");
  EXPECT_EQ(Check("nonsense"), "NOT_FOUND/NOT_FOUND");
  engine_->StopHeart();
  EXPECT_EQ(NextHealth(*alive), "NOT_SERVING");
  EXPECT_EQ(NextHealth(*ready), "NOT_SERVING");
  engine_->StartHeart();
  EXPECT_EQ(NextHealth(*alive), "SERVING");
  EXPECT_EQ(NextHealth(*ready), "SERVING");
}

TEST_F(LifecycleTest, AnEngineThatDoesNotMoveAgainIsReportedOnceAndCallsForTheEnd) {
  absl::Notification stuck;
  ServerConfig config;
  config.liveness_timeout_ms = 50;
  config.watchdog_timeout_ms = 100;
  config.on_stuck = [&] { stuck.Notify(); };  // twice would abort
  Open(std::move(config));
  Load();
  engine_->StopHeart();
  EXPECT_TRUE(stuck.WaitForNotificationWithTimeout(absl::Minutes(1)));
  EXPECT_EQ(Check("liveness"), "NOT_SERVING");
}

TEST_F(LifecycleTest, WatchesEndWithTheServer) {
  StartServer();
  auto watch = Watch("");
  EXPECT_EQ(NextHealth(*watch), "SERVING");
  server_->Drain({});
  EXPECT_EQ(NextHealth(*watch), "NOT_SERVING");
  EXPECT_EQ(NextHealth(*watch), "UNAVAILABLE/DRAINING");
}

TEST_F(LifecycleTest, DrainRefusesTheQueuedAndLetsTheRunningFinish) {
  StartServer();
  auto running = client_->Generate(TextRequest("x"));
  const SequenceId running_id = engine_->WaitForSubmission().id;
  engine_->Accept(running_id);
  engine_->Tokens(running_id, {'a'});
  EXPECT_TRUE(Next(*running).has_accepted());
  EXPECT_TRUE(Next(*running).has_delta());
  auto queued = client_->Generate(TextRequest("x"));
  engine_->Accept(engine_->WaitForSubmission().id);
  EXPECT_TRUE(Next(*queued).has_accepted());
  auto watch = Watch("");
  EXPECT_EQ(NextHealth(*watch), "SERVING");

  Server::DrainResult result;
  std::thread drain([&] { result = server_->Drain({.timeout_ms = 60'000}); });
  EXPECT_EQ(NextHealth(*watch), "NOT_SERVING");
  EXPECT_EQ(TestClient::ReadAll(*queued).Shape(), "UNAVAILABLE/DRAINING");
  const Answer refused = Ask(TextRequest("x"));
  EXPECT_EQ(refused.Shape(), "UNAVAILABLE/DRAINING");
  EXPECT_GT(refused.status.retry.retry_delay().seconds(), 0);
  EXPECT_EQ(Check(""), "NOT_SERVING");
  EXPECT_EQ(Check("liveness"), "SERVING");

  engine_->Tokens(running_id, {'b'});
  engine_->Finish(running_id, EndReason::kLength);
  EXPECT_EQ(TestClient::ReadAll(*running).Shape(), "delta choice(LENGTH) finished OK");
  drain.join();
  EXPECT_EQ(result.finished, 1);
  EXPECT_EQ(result.ended, 1);
  EXPECT_EQ(server_->Drain({}).ended, 1) << "the same answer again";
}

TEST_F(LifecycleTest, DrainEndsWhatDoesNotFinishInTime) {
  StartServer();
  auto running = client_->Generate(TextRequest("x"));
  const SequenceId id = engine_->WaitForSubmission().id;
  engine_->Accept(id);
  engine_->Tokens(id, {'a'});
  EXPECT_TRUE(Next(*running).has_accepted());
  EXPECT_TRUE(Next(*running).has_delta());
  const Server::DrainResult result = server_->Drain({.timeout_ms = 20});
  EXPECT_EQ(result.ended, 1);
  EXPECT_EQ(result.finished, 0);
  const Answer answer = TestClient::ReadAll(*running);
  EXPECT_EQ(answer.Shape(), "UNAVAILABLE/DRAINING");
  EXPECT_EQ(answer.status.info.metadata().at("stage"), "running");
}

TEST_F(LifecycleTest, DuringTheDelayRequestsAreStillAccepted) {
  StartServer();
  auto watch = Watch("");
  EXPECT_EQ(NextHealth(*watch), "SERVING");
  std::thread drain([&] { server_->Drain({.delay_ms = 2'000, .timeout_ms = 60'000}); });
  EXPECT_EQ(NextHealth(*watch), "NOT_SERVING");
  auto stream = client_->Generate(TextRequest("x"));
  const SequenceId id = engine_->WaitForSubmission().id;
  engine_->Accept(id);
  engine_->Tokens(id, {'a'});
  engine_->Finish(id, EndReason::kLength);
  EXPECT_TRUE(TestClient::ReadAll(*stream).status.ok());
  drain.join();
}

}  // namespace
}  // namespace quire
