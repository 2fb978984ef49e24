// GenerationService over gRPC's callback API: one reactor per stream. What a stream does is decided
// in generation.h; here it meets the transport.
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include <grpcpp/support/server_callback.h>

#include "quire/v1/generation.grpc.pb.h"
#include "server/call_deadline.h"
#include "server/call_origin.h"
#include "server/errors.h"
#include "server/grpc_endpoint.h"
#include "server/unary_call.h"
#include "server/validation.h"

namespace quire {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;

constexpr char kRequestIdKey[] = "x-request-id";

class GenerateReactor final : public grpc::ServerWriteReactor<ByteBuffer>, public GenerationWriter {
 public:
  GenerateReactor(ServerCore& core, CallbackServerContext* context, const ByteBuffer& bytes)
      : core_(core), context_(context), origin_(OriginOf(*context)) {
    refusal_ = Begin(bytes);
    if (refusal_.ok()) return;
    // Without a message: mostly of a client that has left already, which OnCancel tells only now.
    if (bytes.Valid()) TellRefusal();
    Finish(refusal_);
  }

  // GenerationWriter.
  void Write(const v1::GenerateResponse& response) override {
    buffer_ = SerializeResponse(response);
    StartWrite(&buffer_);
  }
  void WriteLast(const v1::GenerateResponse& response) override {
    buffer_ = SerializeResponse(response);
    StartWriteAndFinish(&buffer_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void Finish(const absl::Status& status) override {
    grpc::ServerWriteReactor<ByteBuffer>::Finish(EndStatus(status, context_));
  }
  void Cancel() override { context_->TryCancel(); }

  // The transport's reactions.
  void OnWriteDone(bool ok) override { generation_.load()->OnWritten(ok); }
  void OnCancel() override {
    is_cancelled_.store(true);
    if (Generation* generation = generation_.load()) generation->OnClientGone();
  }
  void OnDone() override {
    if (Generation* generation = generation_.load()) {
      core_.OnClosed(generation->shared_from_this());
    } else if (!refusal_is_told_) {
      if (is_cancelled_.load()) refusal_ = StatusOfEnd({.reason = EndReason::kCancelled});
      TellRefusal();
    }
    delete this;
  }

 private:
  void TellRefusal() {
    core_.OnCallEnded("Generate", origin_, refusal_, arrived_at_);
    refusal_is_told_ = true;
  }

  absl::Status Begin(const ByteBuffer& bytes) {
    absl::Status status = Identify(*context_, core_, &origin_);
    if (!status.ok()) return status;
    const absl::StatusOr<const ServingModel*> model = core_.ModelForCall();
    if (!model.ok()) return model.status();
    absl::StatusOr<CallTicket> ticket =
        core_.admission().Enter(static_cast<int64_t>(bytes.Length()), origin_);
    if (!ticket.ok()) return ticket.status();
    v1::GenerateRequest request;
    status = ParseRequest(bytes, core_.config().limits, &request);
    if (!status.ok()) return status;
    absl::StatusOr<std::string> id = RequestId(request);
    if (!id.ok()) return id.status();
    if (CheckRequestId(*id, "request_id").ok()) {
      context_->AddInitialMetadata(kRequestIdKey, *id);
      origin_.request_id = *id;
    }
    status = CheckGenerate(request, **model, core_.config().limits);
    if (status.ok()) status = ApplyRights(origin_.tenant.get(), &request);
    if (!status.ok()) return status;
    const TimeUs deadline = EngineDeadline(context_->raw_deadline(), (*model)->engine->Now());
    const bool is_tokenized = request.has_token_ids() && request.params().bad_words().empty();
    auto generation = core_.AddGeneration(origin_, std::move(request), *std::move(ticket), deadline,
                                          **model, this);
    if (!generation.ok()) return generation.status();
    generation_.store(generation->get());
    if (is_tokenized) {
      (*generation)->Prepare();
    } else {
      core_.RunTextJob([generation = *std::move(generation)] { generation->Prepare(); });
    }
    return absl::OkStatus();
  }

  // From the request (not checked yet), from metadata, or made.
  absl::StatusOr<std::string> RequestId(const v1::GenerateRequest& request) {
    if (!request.request_id().empty()) return request.request_id();
    const std::optional<absl::string_view> id = ValueOf(*context_, kRequestIdKey);
    if (!id) return core_.MakeRequestId();
    const absl::Status status = CheckRequestId(*id, absl::StrCat("metadata ", kRequestIdKey));
    if (!status.ok()) return status;
    return std::string(*id);
  }

  ServerCore& core_;
  CallbackServerContext* const context_;
  const std::chrono::steady_clock::time_point arrived_at_ = std::chrono::steady_clock::now();
  CallOrigin origin_;
  absl::Status refusal_;  // why there is no generation
  bool refusal_is_told_ = false;
  std::atomic<bool> is_cancelled_ = false;
  // Null: refused before there was one. The core keeps it until OnClosed. Set by one thread and
  // read by others, which gRPC alone orders.
  std::atomic<Generation*> generation_ = nullptr;
  ByteBuffer buffer_;  // of the write in flight
};

absl::StatusOr<v1::AbortResponse> Abort(const v1::AbortRequest& request, const CallOrigin& origin,
                                        ServerCore& core) {
  const absl::Status status = CheckWithoutModel(request, core.config().limits);
  if (!status.ok()) return status;
  for (const std::string& id : request.request_ids()) core.Abort(origin.tenant_name(), id);
  return v1::AbortResponse();
}

using RawGeneration = v1::GenerationService::WithRawCallbackMethod_Generate<
    v1::GenerationService::WithRawCallbackMethod_Abort<v1::GenerationService::Service>>;

class GenerationServiceHandler final : public RawGeneration {
 public:
  explicit GenerationServiceHandler(ServerCore& core) : core_(core) {}

  grpc::ServerWriteReactor<ByteBuffer>* Generate(CallbackServerContext* context,
                                                 const ByteBuffer* in) override {
    return new GenerateReactor(core_, context, *in);
  }

  grpc::ServerUnaryReactor* Abort(CallbackServerContext* context, const ByteBuffer* in,
                                  ByteBuffer* out) override {
    return AnswerNow<v1::AbortRequest>(
        {core_, *context, "Abort"}, in, out,
        [this](const v1::AbortRequest& request, const CallOrigin& origin) {
          return quire::Abort(request, origin, core_);
        });
  }

 private:
  ServerCore& core_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeGenerationService(ServerCore& core) {
  return std::make_unique<GenerationServiceHandler>(core);
}

}  // namespace quire
