#include "server/admission.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "server/errors.h"
#include "server/steady_now.h"

namespace quire {
namespace {

// "ipv4:127.0.0.1:40312" without the port.
std::string HostOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

absl::Status Full(int64_t current, int64_t limit, absl::string_view what) {
  return MakeError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
                   absl::StrCat(current, what, ", and this server's limit is ", limit),
                   {{"current", absl::StrCat(current)}, {"limit", absl::StrCat(limit)}});
}

}  // namespace

// What a call takes up. It is counted from the beginning, so that calls that come together cannot
// all find room for one.
class Admission::Place {
 public:
  Place(Admission& admission, int64_t num_bytes, const CallOrigin& origin)
      : admission_(admission),
        num_bytes_(num_bytes),
        host_(HostOf(origin.peer)),
        calls_before_(admission.num_calls_.fetch_add(1)),
        bytes_before_(admission.num_bytes_.fetch_add(num_bytes)),
        calls_of_host_before_(admission.AddCallOf(host_) - 1) {}

  ~Place() {
    if (quota_ != nullptr) quota_->Leave();
    admission_.RemoveCallOf(host_);
    admission_.num_bytes_.fetch_sub(num_bytes_);
    admission_.num_calls_.fetch_sub(1);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  absl::Status Check(const ServerLimits& limits) const {
    if (calls_before_ >= limits.max_concurrent_requests) {
      return Full(calls_before_, limits.max_concurrent_requests, " calls are open");
    }
    if (bytes_before_ + num_bytes_ > limits.max_pending_bytes) {
      return Full(bytes_before_, limits.max_pending_bytes, " bytes of requests are held");
    }
    if (limits.max_requests_per_peer > 0 && calls_of_host_before_ >= limits.max_requests_per_peer) {
      return Full(calls_of_host_before_, limits.max_requests_per_peer,
                  absl::StrCat(" calls from ", host_, " are open"));
    }
    return absl::OkStatus();
  }

  absl::Status EnterQuota(const Tenant& tenant) {
    absl::Status status = tenant.quota->Enter(tenant.name, SteadyNow());
    if (status.ok()) quota_ = tenant.quota;
    return status;
  }

 private:
  Admission& admission_;
  const int64_t num_bytes_;
  const std::string host_;
  const int calls_before_;
  const int64_t bytes_before_;
  const int calls_of_host_before_;
  std::shared_ptr<Quota> quota_;  // null: not let in there
};

absl::StatusOr<CallTicket> Admission::Enter(int64_t num_bytes, const CallOrigin& origin) {
  auto place = std::make_shared<Place>(*this, num_bytes, origin);
  absl::Status status = place->Check(limits_);
  // Last: a call that finds no room uses nothing of its tenant's.
  if (status.ok() && origin.tenant != nullptr) status = place->EnterQuota(*origin.tenant);
  if (!status.ok()) return status;
  return CallTicket(std::move(place));
}

int Admission::AddCallOf(const std::string& host) {
  std::lock_guard<std::mutex> lock(mu_);
  return ++calls_of_host_[host];
}

void Admission::RemoveCallOf(const std::string& host) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = calls_of_host_.find(host);
  if (--it->second == 0) calls_of_host_.erase(it);
}

}  // namespace quire
