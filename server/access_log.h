#ifndef QUIRE_SERVER_ACCESS_LOG_H_
#define QUIRE_SERVER_ACCESS_LOG_H_

#include <chrono>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"

#include "server/request_record.h"

namespace quire {

// Writes the line that says what became of a call. Never what a client sent or got: a status is
// told by its code and reason, without its message.
//
// Generate calls are told at level info, all others at debug. Generate calls that the engine never
// accepted cost a client nothing, so only so many of them are told at info (kMaxRefusals in
// kWindow), the rest at debug; the next line of that kind says how many those were. Any thread.
class AccessLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kMaxRefusals = 50;
  static constexpr std::chrono::seconds kWindow{10};

  void OnRecord(const RequestRecord& record);
  // A call of another kind, or a Generate call that was refused before it was more than bytes.
  void OnCall(const char* method, const CallOrigin& origin, const absl::Status& status,
              int64_t total_us);

  // Whether a refusal now may be told at info, and how many were not since the last that was.
  bool MayTellRefusal(Clock::time_point now, int64_t* num_untold);

 private:
  std::mutex mu_;
  // Guarded by mu_.
  Clock::time_point window_start_ = Clock::time_point::min();
  int num_told_ = 0;  // in this window
  int64_t num_untold_ = 0;
};

}  // namespace quire

#endif  // QUIRE_SERVER_ACCESS_LOG_H_
