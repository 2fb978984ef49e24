// The `quire` program: picks a command, sets its flags, runs it.

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/cli/command.h"
#include "server/cli/command_line.h"
#include "server/cli/nearest.h"
#include "server/cli/report.h"
#include "server/cli/variables.h"

namespace quire::cli {
namespace {

constexpr char kIntroduction[] =
    R"(Quire serves large language models over gRPC, from one small binary, with
answers that repeat bit for bit.

Usage: quire COMMAND [FLAGS]

)";

constexpr char kExamples[] = R"(
Three to start with:
  quire serve models/SmolLM2-135M-Instruct.Q4_1.gguf     a server on 127.0.0.1:50051
  quire chat "Why is the sky blue?"                      ask that server, see the answer come
  quire generate --model models/my-model --json "Once"   no server needed: loads, answers, ends

`quire COMMAND --help` shows the flags and examples of a command. Results go to stdout, all else to
stderr. Exit codes: 0 ok, 1 internal error, 2 usage, 3 model files, 4 memory, port or device,
5 server unreachable, 6 request refused or failed, 70 fatal while serving, 130 interrupted.
Every flag can be given as a variable too: QUIRE_MAX_TOKENS for --max-tokens.
)";

std::vector<Command> AllCommands() {
  return {ServeCommand(),    ChatCommand(),        GenerateCommand(), InspectCommand(),
          TokenizeCommand(), DetokenizeCommand(),  TemplateCommand(), EvalCommand(),
          BenchCommand(),    HealthcheckCommand(), DoctorCommand()};
}

void PrintHelp(const std::vector<Command>& commands) {
  std::cout << kIntroduction << "Commands:\n";
  for (const Command& command : commands) {
    std::string name = command.name;
    name.resize(12, ' ');
    std::cout << "  " << name << command.summary << "\n";
  }
  std::cout << kExamples;
}

ExitCode Run(std::vector<std::string> args) {
  const std::vector<Command> commands = AllCommands();
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    PrintHelp(commands);
    return args.empty() ? ExitCode::kUsage : ExitCode::kOk;
  }
  if (args[0] == "--version") {
    std::cout << "quire " << QUIRE_VERSION << "\n";
    return ExitCode::kOk;
  }
  const std::string name = args[0];
  args.erase(args.begin());
  for (const Command& command : commands) {
    if (command.name != name) continue;
    const Given given = {.args = std::move(args),
                         .variables = QuireVariables(environ),
                         .known_variables = KnownVariables(commands)};
    if (auto code = SetFlags(command, given)) return *code;
    const ExitCode code = command.run();
    std::cout.flush();
    if (!std::cout) return Fail(ExitCode::kInternal, "cannot write the results to stdout");
    return code;
  }
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const Command& command : commands) names.push_back(command.name);
  return Fail(ExitCode::kUsage,
              absl::StrCat("there is no command \"", name, "\"; the nearest is \"",
                           Nearest(name, names), "\" (`quire --help` lists them)"));
}

// What is opened later must not be taken for one of the three streams that a program has: the log
// would be written into it.
void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
  }
}

}  // namespace
}  // namespace quire::cli

int main(int argc, char** argv) {
  quire::cli::OpenStandardStreams();
  // A reader that went away is seen as a failed write; an interrupt has its own exit code.
  // Commands that can do better at an interrupt take the signal over.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, [](int) { _exit(static_cast<int>(quire::cli::ExitCode::kInterrupted)); });
  std::ios::sync_with_stdio(false);
  return static_cast<int>(quire::cli::Run(std::vector<std::string>(argv + 1, argv + argc)));
}
