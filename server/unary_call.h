#ifndef QUIRE_SERVER_UNARY_CALL_H_
#define QUIRE_SERVER_UNARY_CALL_H_

#include <atomic>
#include <chrono>
#include <utility>

#include "absl/status/statusor.h"
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/server_callback.h>

#include "server/call_origin.h"
#include "server/errors.h"
#include "server/grpc_status.h"
#include "server/raw_message.h"
#include "server/server_core.h"

namespace quire {

// A call that has come in, and whose it is.
struct IncomingCall {
  ServerCore& core;
  grpc::CallbackServerContext& context;
  const char* method;  // "Tokenize"
};

// Frees itself when the transport is done with the call.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryCall(const IncomingCall& call) : call_(call), origin_(OriginOf(call.context)) {}

  // Whose call it is, and whether they may.
  absl::Status Identify() { return quire::Identify(call_.context, call_.core, &origin_); }
  // Counts it for as long as it lasts.
  absl::Status Enter(int64_t num_bytes) {
    absl::StatusOr<CallTicket> ticket = call_.core.admission().Enter(num_bytes, origin_);
    if (ticket.ok()) ticket_ = *std::move(ticket);
    return ticket.status();
  }
  const CallOrigin& origin() const { return origin_; }
  // The client has gone.
  bool is_cancelled() const { return is_cancelled_.load(); }

  void Answer(const absl::Status& status) {
    call_.core.OnCallEnded(call_.method, origin_, status, arrived_at_);
    Finish(EndStatus(status, &call_.context));
  }

  template <class Response>
  void Answer(const absl::StatusOr<Response>& response, grpc::ByteBuffer* out) {
    if (response.ok()) *out = SerializeResponse(*response);
    Answer(response.status());
  }

  void OnCancel() override { is_cancelled_.store(true); }
  void OnDone() override { delete this; }

 private:
  const IncomingCall call_;
  CallOrigin origin_;
  CallTicket ticket_;  // null: answered at once, or refused
  const std::chrono::steady_clock::time_point arrived_at_ = std::chrono::steady_clock::now();
  std::atomic<bool> is_cancelled_ = false;
};

// Answers a call at once with handler(request, origin) -> StatusOr<Response>.
template <class Request, class Handler>
grpc::ServerUnaryReactor* AnswerNow(const IncomingCall& incoming, const grpc::ByteBuffer* in,
                                    grpc::ByteBuffer* out, const Handler& handler) {
  auto* call = new UnaryCall(incoming);
  absl::Status status = call->Identify();
  Request request;
  if (status.ok()) status = ParseRequest(*in, incoming.core.config().limits, &request);
  if (status.ok()) {
    call->Answer(handler(request, call->origin()), out);
  } else {
    call->Answer(status);
  }
  return call;
}

// Answers a call from a text worker with handler(request, model, limits) -> StatusOr<Response>.
template <class Request, class Handler>
grpc::ServerUnaryReactor* AnswerFromTextWorker(const IncomingCall& incoming,
                                               const grpc::ByteBuffer* in, grpc::ByteBuffer* out,
                                               Handler handler) {
  ServerCore& core = incoming.core;
  auto* call = new UnaryCall(incoming);
  absl::Status status = call->Identify();
  const absl::StatusOr<const ServingModel*> model = core.ModelForCall();
  if (status.ok()) status = model.status();
  if (status.ok()) status = call->Enter(static_cast<int64_t>(in->Length()));
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
