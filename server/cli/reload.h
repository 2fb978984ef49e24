#ifndef QUIRE_SERVER_CLI_RELOAD_H_
#define QUIRE_SERVER_CLI_RELOAD_H_

#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "server/cli/flag.h"

namespace quire::cli {

// What is different in a configuration that was read again? Remembers what the process runs with,
// and what was said already. It applies and logs nothing: whoever reads does.
//
// One thread at a time.
class Reload {
 public:
  // REQUIRES: the flags that a file may set have `get`.
  explicit Reload(absl::Span<const Flag> running);

  struct Changes {
    std::vector<std::string> reloaded;      // "log-level from info to debug"
    std::vector<std::string> need_restart;  // keys; each of their values is named once
  };
  // `next`: the same table, set anew. What reloads counts as running from now on.
  Changes Compare(absl::Span<const Flag> next);

 private:
  using Values = std::map<std::string, std::string>;  // by key
  static Values ValuesOf(absl::Span<const Flag> flags);

  Values running_;
  Values told_;  // what a restart would take up, as far as it was named
};

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_RELOAD_H_
