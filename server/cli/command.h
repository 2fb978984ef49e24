#ifndef QUIRE_SERVER_CLI_COMMAND_H_
#define QUIRE_SERVER_CLI_COMMAND_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "server/cli/exit_code.h"
#include "server/cli/parse_value.h"

namespace quire::cli {

// One flag or argument of a command: how it is typed, what --help says, and where its text goes.
// `set` takes text, so whatever else may carry a value later (environment, file) sets it alike.
struct Flag {
  std::string name;        // "--max-tokens"; an argument by place has no dashes: "MODEL"
  std::string value = "";  // "N", "SIZE", ...; empty: a switch, set by its presence
  std::string help = "";
  std::function<absl::Status(const std::string& text)> set = nullptr;
  bool required = false;
  bool repeats = false;  // may be given several times; `set` is called for each

  bool is_argument() const { return name.front() != '-'; }
};

// A flag that parses its text into `*target`, which must live as long as the command.
template <typename T>
Flag MakeFlag(const char* name, const char* value, const char* help, T* target) {
  return {.name = name, .value = value, .help = help, .set = [target](const std::string& text) {
            return ParseValue(text, target);
          }};
}

inline Flag Switch(const char* name, const char* help, bool* target) {
  return MakeFlag(name, "", help, target);
}

// A whole number in [min, max], suffixes allowed.
template <typename T>
Flag SizeFlag(const char* name, const char* value, const char* help, T* target, int64_t min = 0,
              int64_t max = std::numeric_limits<T>::max()) {
  auto set = [target, min, max](const std::string& text) {
    absl::StatusOr<int64_t> size = ParseSize(text);
    if (!size.ok()) return size.status();
    if (*size < min || *size > max) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" is not from ", min, " to ", max));
    }
    *target = static_cast<T>(*size);
    return absl::OkStatus();
  };
  return {.name = name, .value = value, .help = help, .set = set};
}

// A time in milliseconds, at least `min_ms`.
template <typename T>
Flag DurationFlag(const char* name, const char* value, const char* help, int64_t bare_unit_ms,
                  T* target_ms, int64_t min_ms = 0) {
  auto set = [=](const std::string& text) {
    absl::StatusOr<int64_t> ms = ParseDurationMs(text, bare_unit_ms);
    if (!ms.ok()) return ms.status();
    if (*ms < min_ms || *ms > std::numeric_limits<T>::max()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", text, "\" is not from ", min_ms, " ms to ", std::numeric_limits<T>::max(), " ms"));
    }
    *target_ms = static_cast<T>(*ms);
    return absl::OkStatus();
  };
  return {.name = name, .value = value, .help = help, .set = set};
}

// A command of `quire`: its flags, and what it does once they are set.
struct Command {
  std::string name;
  std::string summary;   // one line, for `quire --help`
  std::string examples;  // after the flags in `quire NAME --help`
  std::vector<Flag> flags;
  std::function<ExitCode()> run;
};

Command ServeCommand();
Command ChatCommand();
Command GenerateCommand();
Command InspectCommand();
Command TokenizeCommand();
Command DetokenizeCommand();
Command TemplateCommand();
Command EvalCommand();

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_COMMAND_H_
