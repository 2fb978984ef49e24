#ifndef QUIRE_SERVER_CLI_FORMAT_VALUE_H_
#define QUIRE_SERVER_CLI_FORMAT_VALUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quire::cli {

// The way back from parse_value.h: texts that give exactly this value.

// "4GiB", "32KiB", "1000": the largest unit that divides it.
std::string FormatSize(int64_t size);

// "2m", "5s", "250ms", likewise.
std::string FormatDurationMs(int64_t ms);

// What ParseValue takes: one text, or one for each entry of a list.
std::vector<std::string> FormatValue(const std::string& value);
std::vector<std::string> FormatValue(bool value);
std::vector<std::string> FormatValue(const std::vector<std::string>& value);
// One text for all.
std::vector<std::string> FormatValue(const std::vector<int32_t>& value);

// No text for no value.
template <typename T>
std::vector<std::string> FormatValue(const std::optional<T>& value) {
  return value ? FormatValue(*value) : std::vector<std::string>();
}

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_FORMAT_VALUE_H_
