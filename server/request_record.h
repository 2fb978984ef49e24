#ifndef QUIRE_SERVER_REQUEST_RECORD_H_
#define QUIRE_SERVER_REQUEST_RECORD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "scheduler/request.h"
#include "server/tenant.h"

namespace quire {

// Where a call comes from, whose it is, and what it is called.
struct CallOrigin {
  std::string request_id = "";  // of Generate, once it is known to be right
  std::string peer = "";        // "ipv4:127.0.0.1:40312"
  std::string trace_id = "";    // of the W3C trace that it is part of; empty: of none
  std::shared_ptr<const Tenant> tenant = nullptr;  // null: nobody is asked for a token

  // Empty: of none. Lives as long as the tenant.
  absl::string_view tenant_name() const {
    return tenant == nullptr ? absl::string_view() : absl::string_view(tenant->name);
  }
};

// What became of one Generate call, when its client's status is settled and the engine is done with
// it. Metrics and access log are made of this alone, so they cannot disagree. Nothing of what a
// client sent or got is in it but the id.
struct RequestRecord {
  CallOrigin origin = {};
  absl::Status status = absl::OkStatus();
  const char* finish_reason = "";  // of the first choice, where the status is OK
  bool is_accepted = false;        // was in the engine's queue
  bool is_started = false;         // left it: its prompt was computed, or begun
  int64_t prompt_tokens = 0;       // as the usage tells them; 0 where it failed in the queue
  int64_t cached_tokens = 0;       // likewise
  int64_t completion_tokens = 0;   // as the client was told, of all choices
  int64_t num_preemptions = 0;     // of all choices
  TimeUs queued_us = 0;            // from arrival until it left the queue, or until its end
  std::optional<TimeUs> ttft_us =
      std::nullopt;  // from arrival, likewise; nothing: there was no token
  TimeUs total_us = 0;
};

}  // namespace quire

#endif  // QUIRE_SERVER_REQUEST_RECORD_H_
