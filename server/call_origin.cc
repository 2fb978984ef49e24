#include "server/call_origin.h"

#include <iterator>

#include "absl/strings/string_view.h"

#include "server/trace_context.h"

namespace quire {

CallOrigin OriginOf(const grpc::CallbackServerContext& context) {
  CallOrigin origin{.peer = context.peer()};
  const auto& metadata = context.client_metadata();
  const auto [first, last] = metadata.equal_range("traceparent");
  if (first != last && std::next(first) == last) {
    origin.trace_id = TraceIdOf(absl::string_view(first->second.data(), first->second.size()));
  }
  return origin;
}

}  // namespace quire
