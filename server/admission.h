#ifndef QUIRE_SERVER_ADMISSION_H_
#define QUIRE_SERVER_ADMISSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "server/request_record.h"
#include "server/server_config.h"

namespace quire {

// Counts a call and the bytes of its request for as long as anybody has a copy.
using CallTicket = std::shared_ptr<void>;

// Is there room for another call? Counted before any work is done for it: of all, of the address
// it comes from, and of its tenant.
//
// Any thread. Outlives its tickets.
class Admission {
 public:
  explicit Admission(const ServerLimits& limits) : limits_(limits) {}

  // A call with a request of `num_bytes`. RESOURCE_EXHAUSTED: QUEUE_FULL when there are too many
  // calls or bytes, TENANT_QUOTA when its tenant has used what it may.
  absl::StatusOr<CallTicket> Enter(int64_t num_bytes, const CallOrigin& origin);
  int num_calls() const { return num_calls_.load(); }

 private:
  class Place;

  // The host's calls, with this one.
  int AddCallOf(const std::string& host);
  void RemoveCallOf(const std::string& host);

  const ServerLimits& limits_;
  std::atomic<int> num_calls_ = 0;
  std::atomic<int64_t> num_bytes_ = 0;  // of their requests
  std::mutex mu_;
  absl::flat_hash_map<std::string, int> calls_of_host_;  // guarded by mu_
};

}  // namespace quire

#endif  // QUIRE_SERVER_ADMISSION_H_
