#ifndef QUIRE_SERVER_CLI_ENGINE_FLAGS_H_
#define QUIRE_SERVER_CLI_ENGINE_FLAGS_H_

#include <vector>

#include "engine/engine_config.h"
#include "server/cli/command.h"

namespace quire::cli {

// Flags of every command that loads a model, all but the model itself. Targets are in `config`.
std::vector<Flag> EngineFlags(EngineConfig* config);

// --override-kv, for every command that opens a GGUF file.
Flag OverrideFlag(std::vector<GgufOverride>* target);

// What contradicts itself among them, before anything is loaded; the message names the flags.
absl::Status CheckEngineFlags(const EngineConfig& config);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_ENGINE_FLAGS_H_
