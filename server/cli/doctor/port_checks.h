#ifndef QUIRE_SERVER_CLI_DOCTOR_PORT_CHECKS_H_
#define QUIRE_SERVER_CLI_DOCTOR_PORT_CHECKS_H_

#include <string>
#include <vector>

#include "server/cli/doctor/finding.h"

namespace quire::cli {

// Whether both addresses can be listened on now, and together. Listens and lets go at
// once, answering nobody. `metrics_listen` may be empty: nowhere.
std::vector<Finding> PortFindings(const std::string& listen, const std::string& metrics_listen);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_DOCTOR_PORT_CHECKS_H_
