#ifndef QUIRE_SERVER_QUOTA_H_
#define QUIRE_SERVER_QUOTA_H_

#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "scheduler/request.h"

namespace quire {

// What a tenant may use. 0: without limit.
struct QuotaLimits {
  double requests_per_second = 0;
  double tokens_per_minute = 0;  // of prompts and answers
  int32_t max_concurrent_requests = 0;

  bool operator==(const QuotaLimits&) const = default;
};

// A right that fills up with time: `rate` units a second, at most `burst` of them. It may go below
// zero; what it is for waits until it is above again.
class TokenBucket {
 public:
  // From `now` on.
  void SetRate(double rate, double burst, TimeUs now);
  void Take(double units, TimeUs now);
  // How long until there are `units`, which must not be more than the burst, or a day. 0: there
  // are.
  TimeUs WaitFor(double units, TimeUs now);

 private:
  void Fill(TimeUs now);

  double rate_ = 0;
  double burst_ = 0;
  double units_ = 0;
  TimeUs filled_at_ = -1;  // -1: never, so it begins full
};

// Has a tenant used what it may? Requests are counted as they come; tokens as they are known, so a
// tenant may end in debt, and its next request waits until that is paid.
//
// Any thread. Outlives the requests it has let in.
class Quota {
 public:
  // Takes effect at once; what is used stays used.
  void SetLimits(const QuotaLimits& limits, TimeUs now);

  // Lets a request in, or says RESOURCE_EXHAUSTED TENANT_QUOTA, with which limit it was, and when
  // another try makes sense (RetryDelayMs). Every request let in must Leave.
  absl::Status Enter(absl::string_view tenant, TimeUs now);
  void Leave();
  void UseTokens(int64_t num_tokens, TimeUs now);

 private:
  std::mutex mu_;  // guards all
  QuotaLimits limits_;
  TokenBucket requests_;
  TokenBucket tokens_;
  int32_t num_open_ = 0;
};

}  // namespace quire

#endif  // QUIRE_SERVER_QUOTA_H_
