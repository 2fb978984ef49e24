#ifndef QUIRE_SERVER_CLI_DOCTOR_MODEL_CHECKS_H_
#define QUIRE_SERVER_CLI_DOCTOR_MODEL_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "server/cli/doctor/finding.h"
#include "server/server_config.h"

namespace quire::cli {

// What loading config.engine.model_path would come to.
Finding ModelFinding(const ServerConfig& config);

// Of a path that exists: a finding with size and digest for each file that may be of the model:
// also of one that is damaged, which a digest shows best.
std::vector<Finding> FileFindings(const std::string& model_path);

// The file itself and, where its name says that it is one of several, all of them; of a folder, its
// weights, configurations and templates, by name. They need not exist.
std::vector<std::string> FilesOfModel(const std::string& model_path);

// SHA-256 of a file in lower-case hexadecimal; the errors name it.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_DOCTOR_MODEL_CHECKS_H_
