#ifndef QUIRE_SERVER_GRPC_STATUS_H_
#define QUIRE_SERVER_GRPC_STATUS_H_

#include "absl/status/status.h"
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

namespace quire {

// What a client gets to see of an error (errors.h): the code, the message, and in the trailer
// `grpc-status-details-bin` a google.rpc.Status with ErrorInfo, and BadRequest and RetryInfo where
// they apply. Long messages and values are cut, so that trailers stay within 4 KiB. This is the
// only place where statuses for clients are made.
grpc::Status ToGrpcStatus(const absl::Status& status);

// That, for the end of this call: where another try makes sense, when is also in the trailer
// `grpc-retry-pushback-ms`, which gRPC's clients obey by themselves.
grpc::Status EndStatus(const absl::Status& status, grpc::CallbackServerContext* context);

}  // namespace quire

#endif  // QUIRE_SERVER_GRPC_STATUS_H_
