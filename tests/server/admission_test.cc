// Who is let in, and what is not computed for those who have left.
#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "quire/v1/tokenizer.pb.h"
#include "server/call_deadline.h"
#include "server/errors.h"
#include "server/unary_call.h"
#include "tests/testing/byte_text.h"
#include "tests/testing/fake_engine.h"

namespace quire {
namespace {

// Keeps how the stream ended.
class EndKeeper final : public GenerationWriter {
 public:
  void Write(const v1::GenerateResponse& /*response*/) override {}
  void WriteLast(const v1::GenerateResponse& /*response*/) override { end_ = "OK"; }
  void Finish(const absl::Status& status) override { end_ = ReasonOf(status); }
  void Cancel() override {}
  const std::string& end() const { return end_; }

 private:
  std::string end_;
};

class AdmissionTest : public testing::Test {
 protected:
  void Start(const ServerLimits& limits, std::unique_ptr<ModelText> text = nullptr) {
    ServerConfig config;
    config.limits = limits;
    core_ = std::make_unique<ServerCore>(config);
    auto engine = std::make_unique<FakeEngine>();
    engine_ = engine.get();
    core_->Serve(std::move(engine), std::move(text));
  }
  // A stream of a text, not prepared yet. Without a tokenizer, tokenising it would crash.
  std::shared_ptr<Generation> AddStream() {
    v1::GenerateRequest request;
    request.set_text("x");
    return *core_->AddGeneration({.request_id = "id"}, request, *core_->admission().Enter(1, {}),
                                 kNever, *core_->model(), &writer_);
  }
  // "OK", or the refusal with its numbers.
  std::string TryToEnter(int64_t num_bytes, const std::string& peer = "") {
    const absl::Status status = core_->admission().Enter(num_bytes, {.peer = peer}).status();
    if (status.ok()) return "OK";
    auto metadata = MetadataOf(status);
    return ReasonOf(status) + " " + metadata["current"] + " of " + metadata["limit"];
  }

  std::unique_ptr<ServerCore> core_;
  FakeEngine* engine_ = nullptr;  // owned by core_
  EndKeeper writer_;
};

TEST_F(AdmissionTest, CallsCountUntilTheLastOfTheirTicketsGoes) {
  Start({.max_concurrent_requests = 2});
  CallTicket first = *core_->admission().Enter(1, {});
  const CallTicket second = *core_->admission().Enter(1, {});
  EXPECT_EQ(TryToEnter(1), "QUEUE_FULL 2 of 2");
  CallTicket copy = first;
  first.reset();
  EXPECT_EQ(TryToEnter(1), "QUEUE_FULL 2 of 2");
  copy.reset();
  EXPECT_EQ(TryToEnter(1), "OK");
}

TEST_F(AdmissionTest, BytesOfRequestsCountTogether) {
  Start({.max_pending_bytes = 100});
  CallTicket ticket = *core_->admission().Enter(60, {});
  EXPECT_EQ(TryToEnter(41), "QUEUE_FULL 60 of 100");
  EXPECT_EQ(TryToEnter(40), "OK");
  EXPECT_EQ(TryToEnter(40), "OK") << "a refused or finished call leaves nothing behind";
  ticket.reset();
  EXPECT_EQ(TryToEnter(100), "OK");
  EXPECT_EQ(TryToEnter(101), "QUEUE_FULL 0 of 100");
}

TEST_F(AdmissionTest, CallsOfOneHostCountTogetherWhateverTheirPorts) {
  Start({.max_requests_per_peer = 1});
  CallTicket ticket = *core_->admission().Enter(1, {.peer = "ipv4:10.0.0.1:4000"});
  const CallTicket other = *core_->admission().Enter(1, {.peer = "ipv6:%5B::1%5D:4000"});
  EXPECT_EQ(TryToEnter(1, "ipv4:10.0.0.1:4001"), "QUEUE_FULL 1 of 1");
  EXPECT_EQ(TryToEnter(1, "ipv4:10.0.0.11:4000"), "OK");
  EXPECT_EQ(TryToEnter(1, "ipv6:%5B::1%5D:4001"), "QUEUE_FULL 1 of 1");
  ticket.reset();
  EXPECT_EQ(TryToEnter(1, "ipv4:10.0.0.1:4001"), "OK");
}

TEST_F(AdmissionTest, ATenantsQuotaIsLeftWithTheTicketAndNotUsedByOtherRefusals) {
  Start({.max_concurrent_requests = 1});
  auto tenant = std::make_shared<Tenant>();
  tenant->name = "search";
  tenant->quota = std::make_shared<Quota>();
  tenant->quota->SetLimits({.requests_per_second = 1e-9, .max_concurrent_requests = 1}, 0);
  const CallOrigin origin{.tenant = tenant};
  CallTicket anybody = *core_->admission().Enter(1, {});
  EXPECT_EQ(ReasonOf(core_->admission().Enter(1, origin).status()), "QUEUE_FULL");
  anybody.reset();
  CallTicket ticket = *core_->admission().Enter(1, origin);  // the one that the rate allows
  ticket.reset();
  const absl::Status refused = core_->admission().Enter(1, origin).status();
  EXPECT_EQ(ReasonOf(refused), "TENANT_QUOTA");
  EXPECT_EQ(MetadataOf(refused)["quota"], "requests_per_second");
}

TEST_F(AdmissionTest, AStreamThatWasCancelledIsNotTokenisedAndCountsUntilItIsForgotten) {
  Start({.max_concurrent_requests = 1});
  std::shared_ptr<Generation> stream = AddStream();
  stream->OnClientGone();
  EXPECT_EQ(writer_.end(), "CANCELLED");
  core_->OnClosed(stream);
  EXPECT_EQ(TryToEnter(1), "QUEUE_FULL 1 of 1") << "its request is still held";
  stream->Prepare();
  stream.reset();
  EXPECT_EQ(TryToEnter(1), "OK");
}

TEST_F(AdmissionTest, AStreamThatIsToEndIsNotTokenised) {
  Start({});
  const std::shared_ptr<Generation> stream = AddStream();
  stream->End(EndReason::kDraining);
  stream->Prepare();
  EXPECT_EQ(writer_.end(), "DRAINING");
  core_->OnClosed(stream);
}

TEST_F(AdmissionTest, AnAbortedStreamIsPreparedForItsUsage) {
  Start({}, MakeByteText());
  const std::shared_ptr<Generation> stream = AddStream();
  stream->End(EndReason::kAborted);
  stream->Prepare();
  EXPECT_EQ(engine_->WaitForEnd(engine_->WaitForSubmission().id), EndReason::kAborted);
  core_->OnClosed(stream);
}

TEST_F(AdmissionTest, JobsOfCancelledCallsAreNotDone) {
  Start({});
  std::latch release(1);
  for (int i = 0; i < 2; ++i) core_->RunTextJob([&] { release.wait(); });
  std::atomic<int> num_done = 0;
  const auto handler = [&](const v1::TokenizeRequest&, const ServingModel&,
                           const ServerLimits&) -> absl::StatusOr<v1::TokenizeResponse> {
    num_done.fetch_add(1);
    return v1::TokenizeResponse();
  };
  const grpc::ByteBuffer in = SerializeResponse(v1::TokenizeRequest());
  grpc::ByteBuffer out;
  grpc::CallbackServerContext context;
  const IncomingCall call{*core_, context, "Tokenize"};
  auto* cancelled = AnswerFromTextWorker<v1::TokenizeRequest>(call, &in, &out, handler);
  auto* wanted = AnswerFromTextWorker<v1::TokenizeRequest>(call, &in, &out, handler);
  cancelled->OnCancel();
  release.count_down();
  core_->Close();  // runs what is queued
  EXPECT_EQ(num_done.load(), 1);
  cancelled->OnDone();
  wanted->OnDone();
}

TEST(CallDeadlineTest, IsALittleEarlierAndNeverOverflows) {
  constexpr TimeUs kNow = 1'000'000'000;
  for (const gpr_clock_type clock : {GPR_CLOCK_REALTIME, GPR_CLOCK_MONOTONIC}) {
    const auto in_seconds = [&](int64_t seconds) {
      gpr_timespec deadline = gpr_now(clock);
      deadline.tv_sec += seconds;
      return EngineDeadline(deadline, kNow);
    };
    EXPECT_LE(in_seconds(3600), kNow + 3600 * int64_t{1'000'000} - 20'000);
    EXPECT_GT(in_seconds(3600), kNow + 3500 * int64_t{1'000'000});
    EXPECT_EQ(in_seconds(int64_t{99'999'999} * 3600), kNever);
    EXPECT_EQ(EngineDeadline(gpr_inf_future(clock), kNow), kNever);
    EXPECT_LT(in_seconds(-5), kNow);
    EXPECT_LT(EngineDeadline(gpr_inf_past(clock), kNow), kNow);
  }
}

}  // namespace
}  // namespace quire
