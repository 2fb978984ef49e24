#include "server/grpc_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "server/errors.h"

namespace quire {
namespace {

constexpr absl::string_view kDomain = "quire";
constexpr size_t kMaxMessageBytes = 1024;
constexpr size_t kMaxValueBytes = 256;
constexpr int kMaxViolations = 8;

// Never inside a character: what is left must be UTF-8.
std::string Cut(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes - 3;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

google::rpc::ErrorInfo ErrorInfoOf(const absl::Status& status) {
  google::rpc::ErrorInfo info;
  info.set_reason(ReasonOf(status));
  info.set_domain(std::string(kDomain));
  for (const auto& [key, value] : MetadataOf(status)) {
    (*info.mutable_metadata())[key] = Cut(value, kMaxValueBytes);
  }
  return info;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(Cut(status.message(), kMaxMessageBytes));
  details.add_details()->PackFrom(ErrorInfoOf(status));
  google::rpc::BadRequest bad_request;
  for (const auto& [field, what] : ViolationsOf(status)) {
    if (bad_request.field_violations_size() == kMaxViolations) break;
    auto* violation = bad_request.add_field_violations();
    violation->set_field(Cut(field, kMaxValueBytes));
    violation->set_description(Cut(what, kMaxValueBytes));
  }
  if (bad_request.field_violations_size() > 0) details.add_details()->PackFrom(bad_request);
  if (const auto delay_ms = RetryDelayMs(status)) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(*delay_ms / 1000);
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(*delay_ms % 1000 * 1'000'000));
    details.add_details()->PackFrom(retry);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), details.message(),
                      details.SerializeAsString());
}

grpc::Status EndStatus(const absl::Status& status, grpc::CallbackServerContext* context) {
  if (const auto delay_ms = RetryDelayMs(status)) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(*delay_ms));
  }
  return ToGrpcStatus(status);
}

}  // namespace quire
