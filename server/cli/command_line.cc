#include "server/cli/command_line.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include <CLI/CLI.hpp>

#include "server/cli/config_file.h"
#include "server/cli/layers.h"
#include "server/cli/nearest.h"
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
  if (flag.is_switch()) {
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
std::string HelpOf(CLI::App& app, const std::vector<Flag>& flags, const std::vector<Typed>& typed) {
  for (size_t i = 0; i < typed.size(); ++i) {
    if (!flags[i].is_switch()) typed[i].option->expected(1);
    typed[i].option->required(flags[i].required);
  }
  return app.help();
}

// One reading of a command's flags from all that was given.
class Reading {
 public:
  Reading(const Command& command, const Given& given) : given_(given), flags_(command.flags) {
    if (command.given == nullptr) return;
    Flag config = MakeFlag("--config", "FILE",
                           "Read flags from here too: TOML, `max-num-seqs = 64`; a flag or a "
                           "QUIRE_ variable comes first",
                           &config_path_);
    config.sources = Sources::kEnvironment;
    config_idx_ = flags_.size();
    flags_.push_back(std::move(config));
    Flag print = Switch("--print-config",
                        "Print each flag's value and where it came from, as a file for --config",
                        &prints_config_);
    print.sources = Sources::kCommandLine;
    flags_.push_back(std::move(print));
  }

  // Reads the command line. Returns text to print instead of anything else: the help.
  absl::StatusOr<std::string> Parse(const Command& command) {
    CLI::App app(command.summary, absl::StrCat("quire ", command.name));
    app.footer(command.examples);
    app.get_formatter()->column_width(34);
    app.get_formatter()->label("Positionals", "Arguments");
    app.get_formatter()->label("Options", "Flags");
    std::vector<Typed> typed(flags_.size());
    std::vector<std::string> args = given_.args;
    try {
      for (size_t i = 0; i < typed.size(); ++i) Declare(app, flags_[i], typed[i]);
      std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
      app.parse(std::move(args));
    } catch (const CLI::CallForHelp&) {
      return HelpOf(app, flags_, typed);
    } catch (const CLI::ParseError& error) {
      return absl::InvalidArgumentError(absl::StrCat(error.what(), NearestOf(app.remaining())));
    }
    typed_.resize(flags_.size());
    for (size_t i = 0; i < typed.size(); ++i) {
      if (typed[i].option->count() == 0) continue;
      typed_[i] =
          Said{.texts = std::move(typed[i].texts), .origin = "flag", .place = NameOf(flags_[i])};
      if (flags_[i].is_switch()) typed_[i]->texts = {typed[i].on ? "true" : "false"};
    }
    return "";
  }

  // Then the rest, and sets the flags.
  absl::Status Set() {
    if (absl::Status status = CheckVariables(given_.variables, given_.known_variables);
        !status.ok()) {
      return status;
    }
    absl::StatusOr<Layer> environment = EnvironmentLayer(flags_, given_.variables);
    if (!environment.ok()) return environment.status();
    for (size_t i = 0; i < flags_.size(); ++i) {
      for (const std::string& name : flags_[i].yields_to) {
        if (IsTyped(name)) (*environment)[i].reset();
      }
    }
    absl::StatusOr<Layer> file = Layer(flags_.size());
    if (config_idx_) {
      const auto& said = typed_[*config_idx_] ? typed_[*config_idx_] : (*environment)[*config_idx_];
      if (said && !said->texts.back().empty()) file = FileLayer(flags_, said->texts.back());
      if (absl::IsNotFound(file.status())) {
        return absl::InvalidArgumentError(absl::StrCat(said->place, ": ", file.status().message()));
      }
    }
    if (!file.ok()) return file.status();
    // A configuration may be looked at before it is complete.
    if (IsTyped("--print-config")) {
      for (Flag& flag : flags_) flag.required = false;
    }
    const Layer* layers[] = {&typed_, &*environment, &*file};
    absl::StatusOr<std::vector<std::string>> origins = SetFromLayers(flags_, layers);
    if (!origins.ok()) return origins.status();
    origins_ = *std::move(origins);
    return absl::OkStatus();
  }

  bool prints_config() const { return prints_config_; }

  // A file for --config that sets all flags to what they are now.
  absl::StatusOr<std::string> Config() const {
    std::string text;
    for (size_t i = 0; i < flags_.size(); ++i) {
      const Flag& flag = flags_[i];
      if (flag.sources != Sources::kAll) continue;
      const FileEntry entry = {
          .key = KeysOf(flag)[0], .texts = flag.get(), .is_array = flag.repeats};
      absl::StatusOr<std::string> line = ConfigLine(entry, origins_[i]);
      if (!line.ok()) return line.status();
      absl::StrAppend(&text, *line, "\n");
    }
    return text;
  }

 private:
  bool IsTyped(const std::string& name) const {
    for (size_t i = 0; i < flags_.size(); ++i) {
      if (flags_[i].name == name) return typed_[i].has_value();
    }
    return false;
  }

  // What an unknown flag may have meant; nothing where none is unknown.
  std::string NearestOf(const std::vector<std::string>& unknown) const {
    if (unknown.empty() || !absl::StartsWith(unknown[0], "--")) return "";
    std::vector<std::string> names;
    for (const Flag& flag : flags_) {
      if (flag.is_argument()) continue;
      for (const std::string& key : KeysOf(flag)) names.push_back("--" + key);
    }
    return absl::StrCat("; the nearest is ",
                        Nearest(unknown[0].substr(0, unknown[0].find('=')), names));
  }

  const Given& given_;
  std::vector<Flag> flags_;
  std::optional<size_t> config_idx_;
  std::string config_path_;
  bool prints_config_ = false;
  Layer typed_;
  std::vector<std::string> origins_;
};

}  // namespace

std::optional<ExitCode> SetFlags(const Command& command, const Given& given) {
  const auto refuse = [&](const absl::Status& status) {
    return Fail(ExitCode::kUsage, absl::StrCat(status.message(), " (`quire ", command.name,
                                               " --help` shows what there is)"));
  };
  Reading reading(command, given);
  const absl::StatusOr<std::string> help = reading.Parse(command);
  if (!help.ok()) return refuse(help.status());
  if (!help->empty()) {
    std::cout << *help;
    return ExitCode::kOk;
  }
  if (absl::Status status = reading.Set(); !status.ok()) return refuse(status);
  if (reading.prints_config()) {
    const absl::StatusOr<std::string> config = reading.Config();
    if (!config.ok()) return refuse(config.status());
    std::cout << *config;
    return ExitCode::kOk;
  }
  if (command.given != nullptr) *command.given = given;
  return std::nullopt;
}

absl::Status SetFlagsAgain(const Command& command, const Given& given) {
  Reading reading(command, given);
  if (absl::StatusOr<std::string> help = reading.Parse(command); !help.ok()) return help.status();
  return reading.Set();
}

}  // namespace quire::cli
