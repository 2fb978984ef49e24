#include "server/listen_address.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include <arpa/inet.h>

namespace quire {

namespace {

bool IsHostAndPort(absl::string_view listen) {
  const size_t colon = listen.rfind(':');
  const absl::string_view host = listen.substr(0, colon);
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  uint32_t port = 0;
  return colon != absl::string_view::npos && !host.empty() &&
         (in_brackets || host.find_first_of("[]:/,") == absl::string_view::npos) &&
         absl::SimpleAtoi(listen.substr(colon + 1), &port) && port <= 65535;
}

}  // namespace

absl::Status CheckListenAddress(absl::string_view flag, absl::string_view listen) {
  if (IsHostAndPort(listen)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      flag, " ", listen,
      ": must be host:port, such as 127.0.0.1:50051 or [::1]:50051 (port 0: any free one)"));
}

absl::Status CheckIpv4ListenAddress(absl::string_view flag, absl::string_view listen) {
  if (IsHostAndPort(listen) && listen.front() != '[') return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(flag, " ", listen,
                   ": must be host:port over IPv4, such as 127.0.0.1:9400 (port 0: any free one)"));
}

bool IsLoopback(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const std::string host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]") return true;
  in_addr parsed;
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1 && ntohl(parsed.s_addr) >> 24 == 127;
}

}  // namespace quire
