#ifndef QUIRE_SERVER_UNARY_CALL_H_
#define QUIRE_SERVER_UNARY_CALL_H_

#include <atomic>
#include <utility>

#include "absl/status/statusor.h"
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/server_callback.h>

#include "server/errors.h"
#include "server/grpc_status.h"
#include "server/raw_message.h"
#include "server/server_core.h"

namespace quire {

// Frees itself when the transport is done with the call.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // `ticket`: null for a call that is answered at once.
  explicit UnaryCall(CallTicket ticket = nullptr) : ticket_(std::move(ticket)) {}

  // The client has gone.
  bool is_cancelled() const { return is_cancelled_.load(); }

  void Answer(const absl::Status& status) { Finish(ToGrpcStatus(status)); }

  template <class Response>
  void Answer(const absl::StatusOr<Response>& response, grpc::ByteBuffer* out) {
    if (response.ok()) *out = SerializeResponse(*response);
    Finish(ToGrpcStatus(response.status()));
  }

  void OnCancel() override { is_cancelled_.store(true); }
  void OnDone() override { delete this; }

 private:
  const CallTicket ticket_;
  std::atomic<bool> is_cancelled_ = false;
};

// Answers a call at once with handler(request) -> StatusOr<Response>.
template <class Request, class Handler>
grpc::ServerUnaryReactor* AnswerNow(const ServerCore& core, const grpc::ByteBuffer* in,
                                    grpc::ByteBuffer* out, const Handler& handler) {
  auto* call = new UnaryCall;
  Request request;
  const absl::Status status = ParseRequest(*in, core.config().limits, &request);
  if (status.ok()) {
    call->Answer(handler(request), out);
  } else {
    call->Answer(status);
  }
  return call;
}

// Answers a call from a text worker with handler(request, model, limits) -> StatusOr<Response>.
template <class Request, class Handler>
grpc::ServerUnaryReactor* AnswerFromTextWorker(ServerCore& core, const grpc::ByteBuffer* in,
                                               grpc::ByteBuffer* out, Handler handler) {
  const absl::StatusOr<CallTicket> ticket = core.Enter(static_cast<int64_t>(in->Length()));
  absl::Status status = ticket.status();
  auto* call = new UnaryCall(ticket.ok() ? *ticket : nullptr);
  const absl::StatusOr<const ServingModel*> model = core.ModelForCall();
  if (status.ok()) status = model.status();
  Request request;
  if (status.ok()) status = ParseRequest(*in, core.config().limits, &request);
  if (!status.ok()) {
    call->Answer(status);
    return call;
  }
  core.RunTextJob([&core, call, out, handler, model = *model, request = std::move(request)] {
    if (call->is_cancelled()) {
      call->Answer(StatusOfEnd({.reason = EndReason::kCancelled}));
    } else {
      call->Answer(handler(request, *model, core.config().limits), out);
    }
  });
  return call;
}

}  // namespace quire

#endif  // QUIRE_SERVER_UNARY_CALL_H_
