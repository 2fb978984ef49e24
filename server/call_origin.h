#ifndef QUIRE_SERVER_CALL_ORIGIN_H_
#define QUIRE_SERVER_CALL_ORIGIN_H_

#include <grpcpp/server_context.h>

#include "server/request_record.h"

namespace quire {

// The peer, and the trace that the call's metadata says it is part of. A `traceparent` that is not
// valid, or comes twice, is ignored.
CallOrigin OriginOf(const grpc::CallbackServerContext& context);

}  // namespace quire

#endif  // QUIRE_SERVER_CALL_ORIGIN_H_
