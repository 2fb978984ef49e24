#include "server/cli/command_line.h"

#include <algorithm>
#include <iostream>

#include <CLI/CLI.hpp>

#include "server/cli/report.h"

namespace quire::cli {
namespace {

// What was typed for one flag.
struct Typed {
  CLI::Option* option = nullptr;
  std::vector<std::string> texts;
  bool on = false;
};

void Declare(CLI::App& app, const Flag& flag, Typed& typed) {
  if (!flag.is_argument() && flag.value.empty()) {
    typed.option = app.add_flag(flag.name, typed.on, flag.help);
    return;
  }
  typed.option = app.add_option(flag.name, typed.texts, flag.help)
                     ->option_text(flag.value.empty() ? " " : flag.value)
                     ->expected(-1)
                     ->allow_extra_args(false);  // one per flag, any number of flags
}

// CLI11 would miss a required flag before it minds an unknown one, which is what went wrong more
// often, and says little about one that is there twice: so it learns of both for its help only.
std::string HelpOf(CLI::App& app, const Command& command, const std::vector<Typed>& typed) {
  for (size_t i = 0; i < typed.size(); ++i) {
    const Flag& flag = command.flags[i];
    if (flag.is_argument() || !flag.value.empty()) typed[i].option->expected(1);
    typed[i].option->required(flag.required);
  }
  return app.help();
}

absl::Status SetFrom(const Flag& flag, const Typed& typed) {
  if (typed.option->count() == 0) {
    return flag.required ? absl::InvalidArgumentError("is required") : absl::OkStatus();
  }
  if (!flag.is_argument() && flag.value.empty()) return flag.set(typed.on ? "true" : "false");
  if (typed.texts.size() > 1 && !flag.repeats) {
    return absl::InvalidArgumentError(absl::StrCat("given ", typed.texts.size(),
                                                   " times, the last as \"", typed.texts.back(),
                                                   "\"; it can be given once"));
  }
  for (const std::string& text : typed.texts) {
    absl::Status status = flag.set(text);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<ExitCode> SetFlags(const Command& command, std::vector<std::string> args) {
  CLI::App app(command.summary, absl::StrCat("quire ", command.name));
  app.footer(command.examples);
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("Positionals", "Arguments");
  app.get_formatter()->label("Options", "Flags");
  std::vector<Typed> typed(command.flags.size());
  const auto refuse = [&](absl::string_view what) {
    return Fail(ExitCode::kUsage,
                absl::StrCat(what, " (`quire ", command.name, " --help` shows what there is)"));
  };
  try {
    for (size_t i = 0; i < typed.size(); ++i) Declare(app, command.flags[i], typed[i]);
    std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
    app.parse(std::move(args));
  } catch (const CLI::CallForHelp&) {
    std::cout << HelpOf(app, command, typed);
    return ExitCode::kOk;
  } catch (const CLI::ParseError& error) {
    return refuse(error.what());
  }
  for (size_t i = 0; i < typed.size(); ++i) {
    absl::Status status = SetFrom(command.flags[i], typed[i]);
    if (!status.ok()) return refuse(absl::StrCat(command.flags[i].name, ": ", status.message()));
  }
  return std::nullopt;
}

}  // namespace quire::cli
