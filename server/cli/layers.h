#ifndef QUIRE_SERVER_CLI_LAYERS_H_
#define QUIRE_SERVER_CLI_LAYERS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/cli/flag.h"
#include "server/cli/variables.h"

namespace quire::cli {

// What one source says of one flag.
struct Said {
  std::vector<std::string> texts;
  std::string origin;  // "flag", "QUIRE_LISTEN", "quire.toml:3"
  // How errors begin: "--listen", "QUIRE_LISTEN", "quire.toml:3: listen".
  std::string place;
};

// One source's word on each flag of a table, by the flag's index; nothing where it is silent.
using Layer = std::vector<std::optional<Said>>;

// Each fails where the source names something that the table does not have for it, or twice.
absl::StatusOr<Layer> EnvironmentLayer(absl::Span<const Flag> flags, const Variables& variables);
absl::StatusOr<Layer> FileLayer(absl::Span<const Flag> flags, const std::string& path);

// Sets each flag from the first of the layers that speaks of it, and from no other. Returns the
// origins, "default" where all are silent. The message of a failure says from where the value came.
absl::StatusOr<std::vector<std::string>> SetFromLayers(absl::Span<const Flag> flags,
                                                       absl::Span<const Layer* const> layers);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_LAYERS_H_
