#ifndef QUIRE_SERVER_CLI_DOCTOR_FINDING_H_
#define QUIRE_SERVER_CLI_DOCTOR_FINDING_H_

#include <string>
#include <vector>

#include "server/cli/exit_code.h"
#include "server/cli/report.h"

namespace quire::cli {

// What one look of `quire doctor` at one thing has found. kOk may say just what is.
struct Finding {
  enum class Status { kOk, kWarning, kProblem };

  std::string check;  // "memory"
  Status status = Status::kOk;
  std::string seen = "";          // with the numbers
  std::string remedy = "";        // a command or a flag; empty where all is well
  ExitCode code = ExitCode::kOk;  // of a problem: what serving would end with
};

Finding Ok(std::string check, std::string seen);
Finding Warning(std::string check, std::string seen, std::string remedy);
Finding Problem(std::string check, std::string seen, std::string remedy, ExitCode code);

// "warning  memory     what was seen\n", and the remedy on a line of its own below.
std::string ToText(const Finding& finding, bool with_colours);
// {check, status, seen, remedy}; the remedy may be empty.
Json ToJson(const Finding& finding);

// kOk, or the code of the first problem. REQUIRES: in the order in which serving would meet them.
ExitCode CodeOf(const std::vector<Finding>& findings);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_DOCTOR_FINDING_H_
