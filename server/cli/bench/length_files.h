#ifndef QUIRE_SERVER_CLI_BENCH_LENGTH_FILES_H_
#define QUIRE_SERVER_CLI_BENCH_LENGTH_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire::cli::bench {

// Tokens that one entry of a trace's hash_ids stands for.
constexpr int32_t kTraceBlockTokens = 512;

// One request of a trace: how long it was, and what it shared with others.
struct TraceLine {
  int32_t prompt_tokens = 0;
  int32_t new_tokens = 0;
  // One for each kTraceBlockTokens of the prompt: where they are equal, the tokens are. Empty:
  // nothing is known to be shared.
  std::vector<int64_t> hash_ids;
};

// Lines {"input_length": N, "output_length": N, "hash_ids": [...]}, the last one optional, as
// published traces have them; what else is in a line is passed over. `name` is for errors, which
// tell the line.
absl::StatusOr<std::vector<TraceLine>> ParseTrace(const std::string& text, absl::string_view name);

// One prompt as it is, in tokens.
struct PromptLine {
  std::vector<int32_t> ids;
  int32_t new_tokens = 0;  // 0: as many as the others
};

// Lines {"ids": [...], "max_tokens": N}, the last one optional.
absl::StatusOr<std::vector<PromptLine>> ParsePrompts(const std::string& text,
                                                     absl::string_view name);

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_LENGTH_FILES_H_
