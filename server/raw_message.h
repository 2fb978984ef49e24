#ifndef QUIRE_SERVER_RAW_MESSAGE_H_
#define QUIRE_SERVER_RAW_MESSAGE_H_

#include "absl/status/status.h"
#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "server/server_config.h"

namespace quire {

// Requests reach us as bytes and are parsed here, because gRPC answers a request that it cannot
// parse with UNIMPLEMENTED and no details, and because they are checked before they are parsed.

// INVALID_ARGUMENT as in wire_check.h, and `message` is not to be used then.
absl::Status ParseRequest(const grpc::ByteBuffer& bytes, const ServerLimits& limits,
                          google::protobuf::Message* message);

grpc::ByteBuffer SerializeResponse(const google::protobuf::Message& message);

}  // namespace quire

#endif  // QUIRE_SERVER_RAW_MESSAGE_H_
