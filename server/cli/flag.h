#ifndef QUIRE_SERVER_CLI_FLAG_H_
#define QUIRE_SERVER_CLI_FLAG_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "server/cli/format_value.h"
#include "server/cli/parse_value.h"

namespace quire::cli {

// Which sources may set a flag beside the command line (server/cli/README.md).
enum class Sources {
  kAll,          // the environment, and the file of a command that reads one
  kEnvironment,  // the environment, not the file
  kCommandLine,  // none: it asks for this one run
};

// One flag or argument of a command: how it is typed, what --help says, and where its text goes.
// All sources give texts, and all texts go through `set`, so a value means the same from each.
struct Flag {
  std::string name;        // "--max-tokens"; an argument by place has no dashes: "MODEL".
                           // "--kv-cache,--kv-cache-bytes": the first is its name, all are known
  std::string value = "";  // "N", "SIZE", ...; empty: a switch, set by its presence
  std::string help = "";
  std::function<absl::Status(const std::string& text)> set = nullptr;
  // The value as `set` would take it: one text, none where there is no value, or one for each entry
  // of a flag that repeats. Before anything is set these are the defaults.
  std::function<std::vector<std::string>()> get = nullptr;
  bool required = false;
  bool repeats = false;  // may be given several times; `set` is called for each
  Sources sources = Sources::kAll;
  bool reloads = false;  // SIGHUP takes up a new value; else it needs a restart
  // With one of those flags on the command line, what the environment says of this one does not
  // count.
  std::vector<std::string> yields_to = {};

  bool is_argument() const { return name.front() != '-'; }
  bool is_switch() const { return !is_argument() && value.empty(); }
};

// What files call it, its name first: {"kv-cache", "kv-cache-bytes"}; {"model"} for MODEL.
std::vector<std::string> KeysOf(const Flag& flag);

// Its name, without its other ones: "--kv-cache"; "MODEL".
std::string NameOf(const Flag& flag);

// A flag that parses its text into `*target`, which must live as long as the command.
template <typename T>
Flag MakeFlag(const char* name, const char* value, const char* help, T* target) {
  return {.name = name,
          .value = value,
          .help = help,
          .set = [target](const std::string& text) { return ParseValue(text, target); },
          .get = [target] { return FormatValue(*target); }};
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
  const bool is_bytes = std::string(value) == "SIZE";
  auto get = [target, is_bytes]() -> std::vector<std::string> {
    return {is_bytes ? FormatSize(*target) : absl::StrCat(*target)};
  };
  return {.name = name, .value = value, .help = help, .set = set, .get = get};
}

// The same flag where 0 means that Quire chooses at start: typed as "auto".
template <typename T>
Flag OrAuto(Flag flag, T* target) {
  flag.set = [set = std::move(flag.set), target](const std::string& text) {
    if (text != "auto") return set(text);
    *target = 0;
    return absl::OkStatus();
  };
  flag.get = [get = std::move(flag.get), target]() -> std::vector<std::string> {
    if (*target == 0) return {"auto"};
    return get();
  };
  return flag;
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
  auto get = [=]() -> std::vector<std::string> { return {FormatDurationMs(*target_ms)}; };
  return {.name = name, .value = value, .help = help, .set = set, .get = get};
}

// A word and what it stands for.
template <typename T>
struct Choice {
  std::string word;
  T value;
};

// One of a few words. REQUIRES: the target's value has one.
template <typename T>
Flag ChoiceFlag(const char* name, const char* value, const char* help,
                const std::vector<Choice<T>>& choices, T* target) {
  auto set = [choices, target](const std::string& text) {
    std::string words;
    for (const Choice<T>& choice : choices) {
      if (choice.word == text) {
        *target = choice.value;
        return absl::OkStatus();
      }
      const bool is_last = &choice == &choices.back();
      absl::StrAppend(&words, words.empty() ? "" : (is_last ? " or " : ", "), choice.word);
    }
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not ", words));
  };
  auto get = [choices, target]() -> std::vector<std::string> {
    for (const Choice<T>& choice : choices) {
      if (choice.value == *target) return {choice.word};
    }
    return {};
  };
  return {.name = name, .value = value, .help = help, .set = set, .get = get};
}

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_FLAG_H_
