#ifndef QUIRE_SERVER_CLI_DOCTOR_VERSION_CHECKS_H_
#define QUIRE_SERVER_CLI_DOCTOR_VERSION_CHECKS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "server/cli/doctor/finding.h"

namespace quire::cli {

// Name and version of what this program is made of, and of the kernel: {"grpc", "1.51.1"}.
using Versions = std::vector<std::pair<std::string, std::string>>;
Versions FindVersions();

// Those, and whether gRPC is fit for an address that others can reach.
std::vector<Finding> VersionFindings(const Versions& versions, const std::string& listen);

// Whether a version such as "1.51.1" comes before major.minor. False for what is no version.
bool IsBefore(absl::string_view version, int major, int minor);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_DOCTOR_VERSION_CHECKS_H_
