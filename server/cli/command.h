#ifndef QUIRE_SERVER_CLI_COMMAND_H_
#define QUIRE_SERVER_CLI_COMMAND_H_

#include <functional>
#include <string>
#include <vector>

#include "server/cli/exit_code.h"
#include "server/cli/flag.h"

namespace quire::cli {

struct Given;

// A command of `quire`: its flags, and what it does once they are set.
struct Command {
  std::string name;
  std::string summary;   // one line, for `quire --help`
  std::string examples;  // after the flags in `quire NAME --help`
  std::vector<Flag> flags;
  std::function<ExitCode()> run;
  // Not null: it has --config and --print-config too, and what its flags were set from is kept
  // here, so that it can be read again.
  Given* given = nullptr;
};

Command ServeCommand();
Command ChatCommand();
Command GenerateCommand();
Command InspectCommand();
Command TokenizeCommand();
Command DetokenizeCommand();
Command TemplateCommand();
Command EvalCommand();
Command BenchCommand();
Command HealthcheckCommand();
Command DoctorCommand();

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_COMMAND_H_
