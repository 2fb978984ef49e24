#include "server/cli/doctor/port_checks.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "server/listen_address.h"

namespace quire::cli {
namespace {

// A socket that holds an address.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

 private:
  const int fd_;
};
using Held = std::vector<std::unique_ptr<Socket>>;

const char* RemedyOf(int error) {
  switch (error) {
    case EADDRINUSE:
      return "end what listens there (ss -ltnp shows it), or choose another port (port 0: any free "
             "one)";
    case EACCES:
      return "choose a port from 1024 on, or grant CAP_NET_BIND_SERVICE";
    default:
      return "choose an address of this machine (ip -br addr lists them)";
  }
}

// Listens as the servers do, and keeps the address in `held`. The error, or 0.
int Listen(const addrinfo& address, Held& held) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  auto holder = std::make_unique<Socket>(fd);
  // Connections that ended a moment ago are in nobody's way.
  const int one = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(fd, address.ai_addr, address.ai_addrlen) != 0) return errno;
  // Binding alone would let the next one bind the same address.
  if (listen(fd, 1) != 0) return errno;
  held.push_back(std::move(holder));
  return 0;
}

Finding PortFinding(const std::string& flag, const std::string& listen, int family, Held& held) {
  const auto check = family == AF_INET ? CheckIpv4ListenAddress : CheckListenAddress;
  if (absl::Status status = check(flag, listen); !status.ok()) {
    return Problem("port", std::string(status.message()), absl::StrCat(flag, " 127.0.0.1:0"),
                   ExitCode::kUsage);
  }
  const size_t colon = listen.rfind(':');
  std::string host = listen.substr(0, colon);
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), listen.substr(colon + 1).c_str(), &hints, &found);
      error != 0) {
    return Problem("port", absl::StrCat(flag, " ", listen, ": ", gai_strerror(error)),
                   RemedyOf(EADDRNOTAVAIL), ExitCode::kResources);
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  // A name may have several addresses: one that can be had is enough.
  int first_error = 0;
  bool is_bound = false;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const int error = Listen(*address, held);
    is_bound |= error == 0;
    if (first_error == 0) first_error = error;
  }
  if (is_bound) return Ok("port", absl::StrCat(flag, " ", listen, " is free"));
  return Problem("port", absl::StrCat(flag, " ", listen, ": ", std::strerror(first_error)),
                 absl::StrCat(flag, ": ", RemedyOf(first_error)), ExitCode::kResources);
}

}  // namespace

std::vector<Finding> PortFindings(const std::vector<ListenFlagValue>& values) {
  Held held;  // all at once: the flags may be in each other's way
  std::vector<Finding> findings;
  findings.reserve(values.size());
  for (const auto& [flag, listen, family] : values) {
    findings.push_back(PortFinding(flag, listen, family, held));
  }
  return findings;
}

}  // namespace quire::cli
