#ifndef QUIRE_SERVER_CLI_DOCTOR_ACCESS_CHECKS_H_
#define QUIRE_SERVER_CLI_DOCTOR_ACCESS_CHECKS_H_

#include <vector>

#include "absl/time/time.h"

#include "server/cli/doctor/finding.h"
#include "server/server_config.h"

namespace quire::cli {

// Whether the files of TLS and of tokens are right, the listeners may be opened with them, and for
// how long the certificate is good after `now`. Nothing of what is not asked for.
std::vector<Finding> AccessFindings(const ServerConfig& config, absl::Time now);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_DOCTOR_ACCESS_CHECKS_H_
