#ifndef QUIRE_SERVER_CALL_ORIGIN_H_
#define QUIRE_SERVER_CALL_ORIGIN_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include <grpcpp/server_context.h>

#include "server/request_record.h"
#include "server/server_core.h"

namespace quire {

// The peer, and the trace that the call's metadata says it is part of; no tenant yet. A
// `traceparent` that is not valid, or comes twice, is ignored.
CallOrigin OriginOf(const grpc::CallbackServerContext& context);

// Sets the origin's tenant, or says why the call may not come in: AccessControl's reasons, or
// RESOURCE_EXHAUSTED METADATA_TOO_LARGE.
absl::Status Identify(const grpc::CallbackServerContext& context, ServerCore& core,
                      CallOrigin* origin);

// The value of a key of the call's metadata that comes once; nothing: it has none, or several.
std::optional<absl::string_view> ValueOf(const grpc::CallbackServerContext& context,
                                         const char* key);

}  // namespace quire

#endif  // QUIRE_SERVER_CALL_ORIGIN_H_
