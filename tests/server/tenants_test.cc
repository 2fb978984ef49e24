// Who is let in by which token, and what each may do: over gRPC, in one process.
#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.pb.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"

#include "quire/v1/admin.pb.h"
#include "quire/v1/generation.pb.h"
#include "quire/v1/model.pb.h"
#include "quire/v1/tokenizer.pb.h"
#include "tests/server/server_fixture.h"

namespace quire {
namespace {

using testing::HasSubstr;

// SHA-256 of each token: `printf %s TOKEN | sha256sum`.
const std::map<std::string, std::string> kSha256 = {
    {"token-a", "a70bf50e531ce1a817561f2f5d5b6645d4e806becf58ccc5e8cf6b8045a090a8"},
    {"token-b", "49e2bb7eab54cf09b409ffafd3fa8a8a955a60eb972faacaefbed3dbd3207132"},
    {"token-root", "9143f1e7a5d04bb6d27b1748ceb49a233bd9ff2c687afb3c2a5ea4506256aac5"},
};

std::string Entry(const std::string& tenant, const std::string& more = "") {
  return absl::StrCat(R"({"tenant": ")", tenant, R"(", "sha256": ")", kSha256.at("token-" + tenant),
                      "\"", more, "}");
}

CallOptions As(const std::string& tenant) {
  return {.metadata = {{"authorization", "Bearer token-" + tenant}}};
}

class TenantsTest : public ServerFixture {
 protected:
  TenantsTest() {
    WriteTokens({Entry("a"), Entry("b"), Entry("root", R"(, "admin": true, "max_priority": 100)")});
    config_.access_tokens = path_;
    config_.admin_listen = "127.0.0.1:0";
    config_.on_drain = [this] { num_drains_.fetch_add(1); };
  }

  void WriteTokens(const std::vector<std::string>& entries) const {
    std::ofstream(path_) << R"({"tokens": [)" << absl::StrJoin(entries, ",") << "]}";
  }
  void StartWithTokens() {
    Open(config_);
    Load();
    const std::string& address = server_->admin_address();
    admin_ = std::make_unique<TestClient>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  // A stream that runs, and its id.
  std::unique_ptr<ClientStream> Run(const std::string& tenant, v1::GenerateRequest request,
                                    SequenceId* id) {
    auto stream = client_->Generate(request, As(tenant));
    *id = engine_->WaitForSubmission().id;
    engine_->Accept(*id);
    EXPECT_TRUE(Next(*stream).has_accepted());
    return stream;
  }
  // What the engine was asked; the stream ends well, with no token.
  std::shared_ptr<const Request> Submitted(const std::string& tenant,
                                           const v1::GenerateRequest& request) {
    auto stream = client_->Generate(request, As(tenant));
    const FakeEngine::Submission submission = engine_->WaitForSubmission();
    engine_->Accept(submission.id);
    engine_->Finish(submission.id, EndReason::kLength);
    EXPECT_TRUE(TestClient::ReadAll(*stream).status.ok());
    return submission.request;
  }
  ClientStatus Abort(const std::string& tenant, const std::string& id) {
    v1::AbortRequest request;
    request.add_request_ids(id);
    v1::AbortResponse response;
    return client_->Call("/quire.v1.GenerationService/Abort", request, &response, As(tenant));
  }
  template <class Request, class Response>
  ClientStatus AskAdmin(const std::string& method, const Request& request, Response* response,
                        const std::string& tenant) {
    return admin_->Call("/quire.v1.AdminService/" + method, request, response, As(tenant));
  }

  const std::string path_ = testing::TempDir() + "tenants.json";
  ServerConfig config_;
  std::atomic<int> num_drains_ = 0;
  std::unique_ptr<TestClient> admin_;
};

TEST_F(TenantsTest, NoMethodAnswersWithoutATokenButHealth) {
  StartWithTokens();
  int num_methods = 0;
  for (const auto* of_file : {v1::GenerateRequest::descriptor(), v1::TokenizeRequest::descriptor(),
                              v1::GetModelRequest::descriptor(), v1::DrainRequest::descriptor()}) {
    const auto& service = *of_file->file()->service(0);
    TestClient& client = service.name() == "AdminService" ? *admin_ : *client_;
    for (int i = 0; i < service.method_count(); ++i) {
      const std::string path =
          absl::StrCat("/", service.full_name(), "/", service.method(i)->name());
      for (const CallOptions& options :
           {CallOptions(), As("nobody"), CallOptions{.metadata = {{"authorization", "token-a"}}}}) {
        const ClientStatus status =
            service.method(i)->server_streaming()
                ? TestClient::ReadAll(*client.OpenStream(path, "", options)).status
                : client.CallRaw(path, "", std::make_unique<std::string>().get(), options);
        EXPECT_EQ(status.Summary(), "UNAUTHENTICATED/UNAUTHENTICATED") << path;
        ++num_methods;
      }
    }
  }
  EXPECT_EQ(num_methods, 3 * 10);
  grpc::health::v1::HealthCheckResponse health;
  EXPECT_TRUE(
      client_->Call("/grpc.health.v1.Health/Check", grpc::health::v1::HealthCheckRequest(), &health)
          .ok());
  EXPECT_EQ(health.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  auto watch = client_->OpenStream("/grpc.health.v1.Health/Watch", "");
  EXPECT_TRUE(watch->ReadMessage(&health));
  EXPECT_EQ(health.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_EQ(num_drains_.load(), 0);
}

TEST_F(TenantsTest, ARequestIsItsTenants) {
  StartWithTokens();
  v1::GenerateRequest request = TextRequest("x");
  request.set_request_id("same");
  SequenceId a = 0, b = 0;
  auto of_a = Run("a", request, &a);
  auto of_b = Run("b", request, &b);  // another tenant's ids are not in the way
  EXPECT_EQ(Ask(request, As("a")).Shape(), "ALREADY_EXISTS/REQUEST_ID_IN_USE");
  EXPECT_TRUE(Abort("b", "same").ok());
  EXPECT_EQ(TestClient::ReadAll(*of_b).Shape(), "choice(ABORTED) finished OK");
  EXPECT_TRUE(Abort("b", "same").ok()) << "there is none of b's any more";
  engine_->Tokens(a, {'y'});
  engine_->Finish(a, EndReason::kLength);
  EXPECT_EQ(TestClient::ReadAll(*of_a).Shape(), "delta choice(LENGTH) finished OK");
}

TEST_F(TenantsTest, TenantsShareNoPrefixes) {
  StartWithTokens();
  std::map<std::string, std::string> salts;
  for (const char* tenant : {"a", "b"}) {
    salts[tenant] = Submitted(tenant, TextRequest("x"))->cache_salt;
  }
  EXPECT_EQ(salts, (std::map<std::string, std::string>{{"a", "a"}, {"b", "b"}}));
}

TEST_F(TenantsTest, APriorityAboveItsTenantsIsRefusedAndTheDefaultIsLowered) {
  WriteTokens({Entry("a", R"(, "max_priority": -5)"), Entry("b")});
  StartWithTokens();
  const auto priority_of = [&](const std::string& tenant, std::optional<int> priority) {
    v1::GenerateRequest request = TextRequest("x");
    if (priority) request.mutable_params()->set_priority(*priority);
    return Submitted(tenant, request)->priority;
  };
  EXPECT_EQ(priority_of("a", std::nullopt), -5);
  EXPECT_EQ(priority_of("a", -5), -5);
  EXPECT_EQ(priority_of("a", -100), -100);
  EXPECT_EQ(priority_of("b", std::nullopt), 0);
  v1::GenerateRequest request = TextRequest("x");
  request.mutable_params()->set_priority(-4);
  const Answer refused = Ask(request, As("a"));
  EXPECT_EQ(refused.Shape(), "PERMISSION_DENIED/PERMISSION_DENIED");
  EXPECT_EQ(refused.status.info.metadata().at("limit"), "-5");
}

TEST_F(TenantsTest, TokensOfPromptsAndAnswersAreUsedUp) {
  WriteTokens({Entry("a", R"(, "tokens_per_minute": 6)"), Entry("b")});
  StartWithTokens();
  SequenceId id = 0;
  auto stream = Run("a", TextRequest("four"), &id);
  engine_->Tokens(id, {'1', '2', '3'});
  engine_->Finish(id, EndReason::kLength);
  EXPECT_TRUE(TestClient::ReadAll(*stream).status.ok());
  const Answer refused = Ask(TextRequest("x"), As("a"));  // 7 of 6 are used
  EXPECT_EQ(refused.Shape(), "RESOURCE_EXHAUSTED/TENANT_QUOTA");
  EXPECT_EQ(refused.status.info.metadata().at("quota"), "tokens_per_minute");
  // One token comes every 10 s; two are missing, less what has come while this test ran.
  EXPECT_GT(refused.status.retry.retry_delay().seconds(), 9);
  EXPECT_LE(refused.status.retry.retry_delay().seconds(), 20);
  stream = Run("b", TextRequest("four"), &id);  // as it was
  engine_->Finish(id, EndReason::kLength);
  EXPECT_TRUE(TestClient::ReadAll(*stream).status.ok());
}

TEST_F(TenantsTest, ANewFileCountsFromTheNextCallOn) {
  StartWithTokens();
  SequenceId id = 0;
  auto running = Run("a", TextRequest("x"), &id);
  WriteTokens({Entry("b")});
  EXPECT_TRUE(server_->ReloadAccess().ok());
  EXPECT_EQ(Ask(TextRequest("x"), As("a")).Shape(), "UNAUTHENTICATED/UNAUTHENTICATED");
  std::ofstream(path_) << "no JSON";
  EXPECT_THAT(std::string(server_->ReloadAccess().message()), HasSubstr(path_));
  EXPECT_TRUE(Abort("b", "nobody").ok()) << "a wrong file changes nothing";
  engine_->Tokens(id, {'y'});
  engine_->Finish(id, EndReason::kLength);
  EXPECT_EQ(TestClient::ReadAll(*running).Shape(), "delta choice(LENGTH) finished OK");
}

TEST_F(TenantsTest, AdministrationIsForTokensWithTheRightAndOnItsOwnPort) {
  StartWithTokens();
  v1::DrainResponse drained;
  EXPECT_EQ(AskAdmin("Drain", v1::DrainRequest(), &drained, "a").Summary(),
            "PERMISSION_DENIED/PERMISSION_DENIED");
  EXPECT_EQ(num_drains_.load(), 0);
  EXPECT_TRUE(AskAdmin("Drain", v1::DrainRequest(), &drained, "root").ok());
  EXPECT_EQ(num_drains_.load(), 1);
  EXPECT_EQ(client_->Call("/quire.v1.AdminService/Drain", v1::DrainRequest(), &drained, As("root"))
                .Summary(),
            "UNIMPLEMENTED");
  v1::ListModelsResponse models;
  EXPECT_EQ(
      admin_
          ->Call("/quire.v1.ModelService/ListModels", v1::ListModelsRequest(), &models, As("root"))
          .Summary(),
      "UNIMPLEMENTED");
}

TEST_F(TenantsTest, AnAdminAbortsAnybodysRequests) {
  StartWithTokens();
  v1::GenerateRequest request = TextRequest("x");
  request.set_request_id("same");
  SequenceId a = 0, b = 0;
  auto of_a = Run("a", request, &a);
  auto of_b = Run("b", request, &b);
  v1::AbortAnyRequest abort;
  for (const char* id : {"same", "nobody", "same"}) abort.add_request_ids(id);
  v1::AbortAnyResponse aborted;
  EXPECT_TRUE(AskAdmin("AbortAny", abort, &aborted, "root").ok());
  EXPECT_EQ(aborted.num_aborted(), 2u);
  EXPECT_EQ(TestClient::ReadAll(*of_a).Shape(), "choice(ABORTED) finished OK");
  EXPECT_EQ(TestClient::ReadAll(*of_b).Shape(), "choice(ABORTED) finished OK");
  EXPECT_TRUE(AskAdmin("AbortAny", abort, &aborted, "root").ok());
  EXPECT_EQ(aborted.num_aborted(), 0u) << "they are over";
}

TEST_F(TenantsTest, AnAdminSetsTheLevelOfTheLog) {
  StartWithTokens();
  const auto before = spdlog::get_level();
  v1::SetLogLevelRequest request;
  v1::SetLogLevelResponse response;
  const std::map<v1::LogLevel, spdlog::level::level_enum> levels = {
      {v1::LOG_LEVEL_TRACE, spdlog::level::trace},
      {v1::LOG_LEVEL_DEBUG, spdlog::level::debug},
      {v1::LOG_LEVEL_INFO, spdlog::level::info},
      {v1::LOG_LEVEL_WARN, spdlog::level::warn},
      {v1::LOG_LEVEL_ERROR, spdlog::level::err}};
  for (const auto& [asked, level] : levels) {
    request.set_level(asked);
    EXPECT_TRUE(AskAdmin("SetLogLevel", request, &response, "root").ok());
    EXPECT_EQ(spdlog::get_level(), level);
  }
  for (const int wrong : {0, 6}) {
    request.set_level(static_cast<v1::LogLevel>(wrong));
    EXPECT_EQ(AskAdmin("SetLogLevel", request, &response, "root").Summary(),
              "INVALID_ARGUMENT/INVALID_FIELD");
  }
  spdlog::set_level(before);
}

}  // namespace
}  // namespace quire
