#ifndef QUIRE_SERVER_CLI_DOCTOR_PORT_CHECKS_H_
#define QUIRE_SERVER_CLI_DOCTOR_PORT_CHECKS_H_

#include <string>
#include <sys/socket.h>
#include <vector>

#include "server/cli/doctor/finding.h"

namespace quire::cli {

// What a flag says of where to listen.
struct ListenFlagValue {
  std::string flag;
  std::string listen;
  int family = AF_UNSPEC;
};

// Whether these addresses can be listened on now, and together. Listens and lets go at once,
// answering nobody.
std::vector<Finding> PortFindings(const std::vector<ListenFlagValue>& values);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_DOCTOR_PORT_CHECKS_H_
