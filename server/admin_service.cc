// AdminService: what whoever runs the server asks of it over gRPC.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

#include "quire/v1/admin.grpc.pb.h"
#include "server/errors.h"
#include "server/grpc_endpoint.h"
#include "server/unary_call.h"
#include "server/validation.h"

namespace quire {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// Without tokens the port alone protects it (CheckListeners).
absl::Status CheckAdmin(const CallOrigin& origin) {
  if (origin.tenant == nullptr || origin.tenant->is_admin) return absl::OkStatus();
  return MakeError(absl::StatusCode::kPermissionDenied, "PERMISSION_DENIED",
                   absl::StrCat("tenant ", origin.tenant->name,
                                " has no right to this: its tokens need \"admin\": true"),
                   {{"tenant", origin.tenant->name}});
}

absl::StatusOr<v1::SetLogLevelResponse> SetLogLevel(v1::LogLevel level) {
  switch (level) {
    case v1::LOG_LEVEL_TRACE:
      spdlog::set_level(spdlog::level::trace);
      break;
    case v1::LOG_LEVEL_DEBUG:
      spdlog::set_level(spdlog::level::debug);
      break;
    case v1::LOG_LEVEL_INFO:
      spdlog::set_level(spdlog::level::info);
      break;
    case v1::LOG_LEVEL_WARN:
      spdlog::set_level(spdlog::level::warn);
      break;
    case v1::LOG_LEVEL_ERROR:
      spdlog::set_level(spdlog::level::err);
      break;
    default:
      return InvalidField("level", "is not set; set one of LOG_LEVEL_TRACE to LOG_LEVEL_ERROR");
  }
  return v1::SetLogLevelResponse();
}

using RawAdmin = v1::AdminService::WithRawCallbackMethod_Drain<
    v1::AdminService::WithRawCallbackMethod_SetLogLevel<
        v1::AdminService::WithRawCallbackMethod_AbortAny<v1::AdminService::Service>>>;

class AdminServiceHandler final : public RawAdmin {
 public:
  explicit AdminServiceHandler(ServerCore& core) : core_(core) {}

  ServerUnaryReactor* Drain(CallbackServerContext* context, const ByteBuffer* in,
                            ByteBuffer* out) override {
    return Answer<v1::DrainRequest, v1::DrainResponse>({core_, *context, "Drain"}, in, out,
                                                       [this](const v1::DrainRequest&) {
                                                         core_.config().on_drain();
                                                         return v1::DrainResponse();
                                                       });
  }
  ServerUnaryReactor* SetLogLevel(CallbackServerContext* context, const ByteBuffer* in,
                                  ByteBuffer* out) override {
    return Answer<v1::SetLogLevelRequest, v1::SetLogLevelResponse>(
        {core_, *context, "SetLogLevel"}, in, out,
        [](const v1::SetLogLevelRequest& request) { return quire::SetLogLevel(request.level()); });
  }
  ServerUnaryReactor* AbortAny(CallbackServerContext* context, const ByteBuffer* in,
                               ByteBuffer* out) override {
    return Answer<v1::AbortAnyRequest, v1::AbortAnyResponse>(
        {core_, *context, "AbortAny"}, in, out, [this](const v1::AbortAnyRequest& request) {
          const auto& ids = request.request_ids();
          v1::AbortAnyResponse response;
          response.set_num_aborted(
              static_cast<uint32_t>(core_.AbortOfAnyTenant({ids.begin(), ids.end()})));
          return response;
        });
  }

 private:
  // handler(request) -> Response or StatusOr<Response>, for those who may. What they do is a
  // warning in the log: who lowers its level is in it.
  template <class Request, class Response, class Handler>
  ServerUnaryReactor* Answer(const IncomingCall& incoming, const ByteBuffer* in, ByteBuffer* out,
                             const Handler& handler) {
    return AnswerNow<Request>(
        incoming, in, out,
        [&](const Request& request, const CallOrigin& origin) -> absl::StatusOr<Response> {
          absl::Status status = CheckAdmin(origin);
          if (status.ok()) status = CheckWithoutModel(request, core_.config().limits);
          if (!status.ok()) return status;
          spdlog::warn("{} asked by {} {}", incoming.method, origin.peer,
                       std::string(origin.tenant_name()));
          return handler(request);
        });
  }

  ServerCore& core_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAdminService(ServerCore& core) {
  return std::make_unique<AdminServiceHandler>(core);
}

}  // namespace quire
