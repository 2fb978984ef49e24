#ifndef QUIRE_SERVER_CLI_PARSE_VALUE_H_
#define QUIRE_SERVER_CLI_PARSE_VALUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quire::cli {

// A count with an optional suffix, as a whole number: "4GiB", "1.5GiB", "32k", "512". Suffixes as
// vLLM reads them: k, m, g, t (also kB, MB, GB, TB) are powers of 1000; K, M, G, T and KiB, MiB,
// GiB, TiB are powers of 1024. Negative, fractional and overflowing results are errors.
absl::StatusOr<int64_t> ParseSize(const std::string& text);

// Milliseconds: "250ms", "5s", "2m"; a number without a unit is in units of `bare_unit_ms`.
absl::StatusOr<int64_t> ParseDurationMs(const std::string& text, int64_t bare_unit_ms);

// "1,2,3"; spaces around the numbers are allowed. Empty text is an error.
absl::StatusOr<std::vector<int32_t>> ParseIds(const std::string& text);

// Text into a typed value. On error `value` is as it was, and the message has the text and what
// was expected.
absl::Status ParseValue(const std::string& text, std::string* value);
absl::Status ParseValue(const std::string& text, bool* value);  // true, false, 1, 0
absl::Status ParseValue(const std::string& text, int32_t* value);
absl::Status ParseValue(const std::string& text, uint32_t* value);
absl::Status ParseValue(const std::string& text, int64_t* value);
absl::Status ParseValue(const std::string& text, float* value);  // finite or not: the server judges
// Appends.
absl::Status ParseValue(const std::string& text, std::vector<std::string>* value);
// Replaces.
absl::Status ParseValue(const std::string& text, std::vector<int32_t>* value);

template <typename T>
absl::Status ParseValue(const std::string& text, std::optional<T>* value) {
  T parsed{};
  absl::Status status = ParseValue(text, &parsed);
  if (status.ok()) *value = parsed;
  return status;
}

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_PARSE_VALUE_H_
