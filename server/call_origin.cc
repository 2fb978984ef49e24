#include "server/call_origin.h"

#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/errors.h"
#include "server/trace_context.h"

namespace quire {
namespace {

// Counted as HTTP/2 does (RFC 9113, 6.5.2). gRPC would not answer the call: see kMaxHeaderBytes.
absl::Status CheckMetadata(const grpc::CallbackServerContext& context, const ServerLimits& limits) {
  constexpr size_t kBytesOfEntry = 32;
  size_t num_bytes = 0;
  for (const auto& [key, value] : context.client_metadata()) {
    num_bytes += key.size() + value.size() + kBytesOfEntry;
  }
  const auto limit = static_cast<size_t>(limits.max_metadata_bytes);
  if (num_bytes <= limit) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted, "METADATA_TOO_LARGE",
                   absl::StrCat("the call's metadata has ", num_bytes, " bytes, and the limit is ",
                                limit, "; send less"),
                   {{"current", absl::StrCat(num_bytes)}, {"limit", absl::StrCat(limit)}});
}

}  // namespace

std::optional<absl::string_view> ValueOf(const grpc::CallbackServerContext& context,
                                         const char* key) {
  const auto [first, last] = context.client_metadata().equal_range(key);
  if (first == last || std::next(first) != last) return std::nullopt;
  return absl::string_view(first->second.data(), first->second.size());
}

CallOrigin OriginOf(const grpc::CallbackServerContext& context) {
  CallOrigin origin{.peer = context.peer()};
  if (const auto parent = ValueOf(context, "traceparent")) origin.trace_id = TraceIdOf(*parent);
  return origin;
}

absl::Status Identify(const grpc::CallbackServerContext& context, ServerCore& core,
                      CallOrigin* origin) {
  absl::StatusOr<std::shared_ptr<const Tenant>> tenant =
      core.access().Authenticate(ValueOf(context, "authorization"));
  if (!tenant.ok()) return tenant.status();
  origin->tenant = *std::move(tenant);
  return CheckMetadata(context, core.config().limits);
}

}  // namespace quire
