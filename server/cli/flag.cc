#include "server/cli/flag.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace quire::cli {

std::vector<std::string> KeysOf(const Flag& flag) {
  std::vector<std::string> keys;
  for (const absl::string_view name : absl::StrSplit(flag.name, ',')) {
    keys.push_back(absl::AsciiStrToLower(absl::StripPrefix(name, "--")));
  }
  return keys;
}

std::string NameOf(const Flag& flag) { return flag.name.substr(0, flag.name.find(',')); }

}  // namespace quire::cli
