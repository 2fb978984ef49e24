#ifndef QUIRE_SERVER_UNARY_CALL_H_
#define QUIRE_SERVER_UNARY_CALL_H_

#include <utility>

#include "absl/status/statusor.h"
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/server_callback.h>

#include "server/grpc_status.h"
#include "server/raw_message.h"
#include "server/server_core.h"

namespace quire {

// Frees itself when the transport is done with the call.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // `counted`: Enter succeeded for this call.
  UnaryCall(ServerCore& core, bool counted) : core_(core), counted_(counted) {}

  void Answer(const absl::Status& status) { Finish(ToGrpcStatus(status)); }

  template <class Response>
  void Answer(const absl::StatusOr<Response>& response, grpc::ByteBuffer* out) {
    if (response.ok()) *out = SerializeResponse(*response);
    Finish(ToGrpcStatus(response.status()));
  }

  void OnDone() override {
    if (counted_) core_.Leave();
    delete this;
  }

 private:
  ServerCore& core_;
  const bool counted_;
};

// Answers a call at once with handler(request) -> StatusOr<Response>.
template <class Request, class Handler>
grpc::ServerUnaryReactor* AnswerNow(ServerCore& core, const grpc::ByteBuffer* in,
                                    grpc::ByteBuffer* out, const Handler& handler) {
  auto* call = new UnaryCall(core, false);
  Request request;
  const absl::Status status = ParseRequest(*in, &request);
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
  absl::Status status = core.Enter();
  auto* call = new UnaryCall(core, status.ok());
  const absl::StatusOr<const ServingModel*> model = core.ModelForCall();
  if (status.ok()) status = model.status();
  Request request;
  if (status.ok()) status = ParseRequest(*in, &request);
  if (!status.ok()) {
    call->Answer(status);
    return call;
  }
  core.RunTextJob([&core, call, out, handler, model = *model, request = std::move(request)] {
    call->Answer(handler(request, *model, core.config().limits), out);
  });
  return call;
}

}  // namespace quire

#endif  // QUIRE_SERVER_UNARY_CALL_H_
