#ifndef QUIRE_SERVER_GRPC_STATUS_H_
#define QUIRE_SERVER_GRPC_STATUS_H_

#include "absl/status/status.h"
#include <grpcpp/support/status.h>

namespace quire {

// What a client gets to see of an error (errors.h): the code, the message, and in the trailer
// `grpc-status-details-bin` a google.rpc.Status with ErrorInfo, and BadRequest and RetryInfo where
// they apply. Long messages and values are cut, so that trailers stay within 4 KiB. This is the
// only place where statuses for clients are made.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace quire

#endif  // QUIRE_SERVER_GRPC_STATUS_H_
