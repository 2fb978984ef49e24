#ifndef QUIRE_SERVER_CLI_EXIT_CODE_H_
#define QUIRE_SERVER_CLI_EXIT_CODE_H_

namespace quire::cli {

// What a shell script learns from `quire`. The numbers are part of the interface.
enum class ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,        // flags, arguments, configuration
  kModelFiles = 3,   // missing, damaged or contradictory model files
  kResources = 4,    // memory, port, device
  kUnreachable = 5,  // no server
  kRefused = 6,      // the request was refused or failed
  kFatal = 70,       // while serving: the engine stopped moving
  kInterrupted = 130,
};

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_EXIT_CODE_H_
