#include "server/cli/variables.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "server/cli/nearest.h"

namespace quire::cli {
namespace {

constexpr absl::string_view kPrefix = "QUIRE_";

// Read by other parts of the program; not flags, because they are for tests and measurements.
constexpr const char* kNotFlags[] = {"QUIRE_CPU_ISA"};

// Docker's links, which Kubernetes still makes for every Service of a namespace unless a pod says
// enableServiceLinks: false. Of a Service "quire" with a port "grpc":
//   QUIRE_SERVICE_HOST, QUIRE_SERVICE_PORT, QUIRE_SERVICE_PORT_GRPC, QUIRE_PORT=tcp://ADDRESS:PORT,
//   QUIRE_PORT_50051_TCP=tcp://..., QUIRE_PORT_50051_TCP_{PROTO,PORT,ADDR}
bool IsServiceLink(const std::string& name, const std::string& value) {
  const std::vector<absl::string_view> words = absl::StrSplit(name, '_');
  const auto is = [&](size_t i, absl::string_view word) {
    return i < words.size() && words[i] == word;
  };
  for (size_t i = 1; i < words.size(); ++i) {
    const bool is_last = i + 1 == words.size();
    if (is(i, "SERVICE") && is(i + 1, "HOST") && i + 2 == words.size()) return true;
    int number;
    if (is(i, "SERVICE") && is(i + 1, "PORT") && absl::SimpleAtoi(value, &number)) return true;
    if (!is(i, "PORT")) continue;
    if (is_last && absl::StrContains(value, "://")) return true;
    if (i + 2 < words.size() && absl::SimpleAtoi(words[i + 1], &number) &&
        (is(i + 2, "TCP") || is(i + 2, "UDP") || is(i + 2, "SCTP"))) {
      return true;
    }
  }
  return false;
}

}  // namespace

Variables QuireVariables(const char* const* environment) {
  Variables variables;
  for (; *environment != nullptr; ++environment) {
    const absl::string_view entry = *environment;
    const size_t equals = entry.find('=');
    if (equals == absl::string_view::npos || !absl::StartsWith(entry, kPrefix)) continue;
    variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

std::string VariableOf(absl::string_view key) {
  return absl::StrCat(kPrefix, absl::AsciiStrToUpper(absl::StrReplaceAll(key, {{"-", "_"}})));
}

std::set<std::string> KnownVariables(const std::vector<Command>& commands) {
  std::set<std::string> known(std::begin(kNotFlags), std::end(kNotFlags));
  for (const Command& command : commands) {
    if (command.given != nullptr) known.insert(VariableOf("config"));
    for (const Flag& flag : command.flags) {
      if (flag.sources == Sources::kCommandLine) continue;
      for (const std::string& key : KeysOf(flag)) known.insert(VariableOf(key));
    }
  }
  return known;
}

absl::Status CheckVariables(const Variables& variables, const std::set<std::string>& known) {
  for (const auto& [name, value] : variables) {
    if (known.count(name) > 0 || IsServiceLink(name, value)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " in the environment: there is no such setting; the nearest is ",
                     Nearest(name, {known.begin(), known.end()}), "; unset it or set that"));
  }
  return absl::OkStatus();
}

}  // namespace quire::cli
