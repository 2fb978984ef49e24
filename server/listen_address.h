#ifndef QUIRE_SERVER_LISTEN_ADDRESS_H_
#define QUIRE_SERVER_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace quire {

// Whether an operator's address is host:port; FAILED_PRECONDITION otherwise, naming the flag it
// came by. Libraries would take more than that: a default port, paths of sockets, lists.
absl::Status CheckListenAddress(absl::string_view flag, absl::string_view listen);
// Likewise for a listener that has no IPv6.
absl::Status CheckIpv4ListenAddress(absl::string_view flag, absl::string_view listen);

// Does what goes to this address, HOST:PORT or unix:PATH, never leave this machine?
bool IsLoopback(const std::string& address);

}  // namespace quire

#endif  // QUIRE_SERVER_LISTEN_ADDRESS_H_
