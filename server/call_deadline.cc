#include "server/call_deadline.h"

#include <algorithm>

namespace quire {
namespace {

constexpr int64_t kMaxSeconds = int64_t{100} * 366 * 24 * 3600;

}  // namespace

TimeUs EngineDeadline(gpr_timespec deadline, TimeUs now) {
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  if (left.tv_sec > kMaxSeconds) return kNever;
  const TimeUs left_us = std::max<int64_t>(left.tv_sec, -1) * 1'000'000 + left.tv_nsec / 1000;
  return now + left_us - std::clamp<TimeUs>(left_us / 10, 0, 20'000);
}

}  // namespace quire
