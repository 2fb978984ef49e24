#include "server/quota.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "server/errors.h"

namespace quire {
namespace {

constexpr double kSecondUs = 1e6;
constexpr double kMaxWaitUs = 86'400 * kSecondUs;  // nobody waits for more
constexpr TimeUs kConcurrencyRetryUs = 1'000'000;  // nobody knows when another one ends

absl::Status OverQuota(absl::string_view tenant, absl::string_view limit, double value,
                       TimeUs wait) {
  return MakeError(absl::StatusCode::kResourceExhausted, "TENANT_QUOTA",
                   absl::StrCat("tenant ", tenant, " has used its ", limit, " of ", value),
                   {{"tenant", std::string(tenant)},
                    {"quota", std::string(limit)},
                    {"limit", absl::StrCat(value)},
                    {"retry_after_ms", absl::StrCat(std::max<TimeUs>(1, (wait + 999) / 1000))}});
}

}  // namespace

void TokenBucket::SetRate(double rate, double burst, TimeUs now) {
  if (filled_at_ >= 0) Fill(now);
  rate_ = rate;
  burst_ = burst;
  units_ = std::min(units_, burst);
}

void TokenBucket::Fill(TimeUs now) {
  if (filled_at_ < 0) {
    units_ = burst_;
  } else {
    const TimeUs elapsed = std::max<TimeUs>(0, now - filled_at_);  // threads look in any order
    units_ = std::min(burst_, units_ + rate_ * static_cast<double>(elapsed) / kSecondUs);
  }
  filled_at_ = std::max(filled_at_, now);
}

void TokenBucket::Take(double units, TimeUs now) {
  Fill(now);
  units_ -= units;
}

TimeUs TokenBucket::WaitFor(double units, TimeUs now) {
  Fill(now);
  if (units_ >= units) return 0;
  return static_cast<TimeUs>(std::min(std::ceil((units - units_) / rate_ * kSecondUs), kMaxWaitUs));
}

void Quota::SetLimits(const QuotaLimits& limits, TimeUs now) {
  std::lock_guard<std::mutex> lock(mu_);
  limits_ = limits;
  // A second's worth at once, and at least one request; a minute's worth of tokens.
  requests_.SetRate(limits.requests_per_second, std::max(1.0, limits.requests_per_second), now);
  tokens_.SetRate(limits.tokens_per_minute / 60, std::max(1.0, limits.tokens_per_minute), now);
}

absl::Status Quota::Enter(absl::string_view tenant, TimeUs now) {
  std::lock_guard<std::mutex> lock(mu_);
  if (limits_.max_concurrent_requests > 0 && num_open_ >= limits_.max_concurrent_requests) {
    return OverQuota(tenant, "max_concurrent_requests", limits_.max_concurrent_requests,
                     kConcurrencyRetryUs);
  }
  if (limits_.tokens_per_minute > 0) {
    if (const TimeUs wait = tokens_.WaitFor(1, now); wait > 0) {
      return OverQuota(tenant, "tokens_per_minute", limits_.tokens_per_minute, wait);
    }
  }
  if (limits_.requests_per_second > 0) {
    if (const TimeUs wait = requests_.WaitFor(1, now); wait > 0) {
      return OverQuota(tenant, "requests_per_second", limits_.requests_per_second, wait);
    }
    requests_.Take(1, now);
  }
  ++num_open_;
  return absl::OkStatus();
}

void Quota::Leave() {
  std::lock_guard<std::mutex> lock(mu_);
  --num_open_;
}

void Quota::UseTokens(int64_t num_tokens, TimeUs now) {
  std::lock_guard<std::mutex> lock(mu_);
  if (limits_.tokens_per_minute <= 0) return;  // a limit that comes later does not look back
  tokens_.Take(static_cast<double>(num_tokens), now);
}

}  // namespace quire
