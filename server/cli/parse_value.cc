#include "server/cli/parse_value.h"

#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace quire::cli {
namespace {

absl::Status Expected(const std::string& text, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not ", what));
}

// 0 when there is no such suffix.
int64_t MultiplierOf(absl::string_view suffix) {
  constexpr int64_t kKilo = 1000;
  constexpr int64_t kKibi = 1024;
  struct Suffix {
    absl::string_view name;
    int64_t multiplier;
  };
  static constexpr Suffix kSuffixes[] = {
      {"", 1},
      {"B", 1},
      {"k", kKilo},
      {"kB", kKilo},
      {"KB", kKilo},
      {"m", kKilo * kKilo},
      {"MB", kKilo * kKilo},
      {"g", kKilo * kKilo * kKilo},
      {"GB", kKilo * kKilo * kKilo},
      {"t", kKilo * kKilo * kKilo * kKilo},
      {"TB", kKilo * kKilo * kKilo * kKilo},
      {"K", kKibi},
      {"KiB", kKibi},
      {"M", kKibi * kKibi},
      {"MiB", kKibi * kKibi},
      {"G", kKibi * kKibi * kKibi},
      {"GiB", kKibi * kKibi * kKibi},
      {"T", kKibi * kKibi * kKibi * kKibi},
      {"TiB", kKibi * kKibi * kKibi * kKibi},
  };
  for (const Suffix& s : kSuffixes) {
    if (s.name == suffix) return s.multiplier;
  }
  return 0;
}

template <typename T>
absl::Status ParseInteger(const std::string& text, T* value) {
  T parsed;
  if (!absl::SimpleAtoi(text, &parsed)) {
    return Expected(text, absl::StrCat("a whole number from ", std::numeric_limits<T>::min(),
                                       " to ", std::numeric_limits<T>::max()));
  }
  *value = parsed;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(const std::string& text) {
  constexpr absl::string_view kWhat = "a size such as 4GiB, 512MiB, 32k or 4096";
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string number = text.substr(0, digits);
  absl::string_view suffix;
  if (digits != std::string::npos) suffix = absl::string_view(text).substr(digits);
  const int64_t multiplier = MultiplierOf(absl::StripLeadingAsciiWhitespace(suffix));
  if (number.empty() || multiplier == 0) return Expected(text, kWhat);
  int64_t whole;
  if (absl::SimpleAtoi(number, &whole)) {
    if (whole > std::numeric_limits<int64_t>::max() / multiplier) {
      return Expected(text, "a size below 8 EiB");
    }
    return whole * multiplier;
  }
  double fraction;
  if (!absl::SimpleAtod(number, &fraction)) return Expected(text, kWhat);
  const double product = fraction * static_cast<double>(multiplier);
  if (product != std::floor(product)) return Expected(text, "a whole number of units");
  // 2^53: up to here the product is exact.
  if (product > 9007199254740992.0) return Expected(text, "a size below 8 PiB");
  return static_cast<int64_t>(product);
}

absl::StatusOr<int64_t> ParseDurationMs(const std::string& text, int64_t bare_unit_ms) {
  const size_t digits = text.find_first_not_of("0123456789.");
  absl::string_view unit;
  if (digits != std::string::npos) unit = absl::string_view(text).substr(digits);
  int64_t unit_ms = 0;
  if (unit.empty()) unit_ms = bare_unit_ms;
  if (unit == "ms") unit_ms = 1;
  if (unit == "s") unit_ms = 1000;
  if (unit == "m") unit_ms = 60'000;
  double number;
  constexpr double kMost = 1e12;  // ms: 31 years
  if (unit_ms == 0 || !absl::SimpleAtod(text.substr(0, digits), &number) ||
      number * static_cast<double>(unit_ms) > kMost) {
    return Expected(text, "a time such as 250ms, 5s or 2m");
  }
  return static_cast<int64_t>(std::llround(number * static_cast<double>(unit_ms)));
}

absl::StatusOr<std::vector<int32_t>> ParseIds(const std::string& text) {
  std::vector<int32_t> ids;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    int32_t id;
    if (!absl::SimpleAtoi(part, &id)) return Expected(text, "a list of token ids such as 1,2,3");
    ids.push_back(id);
  }
  return ids;
}

absl::Status ParseValue(const std::string& text, std::string* value) {
  *value = text;
  return absl::OkStatus();
}

absl::Status ParseValue(const std::string& text, bool* value) {
  if (text != "true" && text != "false" && text != "1" && text != "0") {
    return Expected(text, "true or false");
  }
  *value = text == "true" || text == "1";
  return absl::OkStatus();
}

absl::Status ParseValue(const std::string& text, int32_t* value) {
  return ParseInteger(text, value);
}

absl::Status ParseValue(const std::string& text, uint32_t* value) {
  return ParseInteger(text, value);
}

absl::Status ParseValue(const std::string& text, int64_t* value) {
  return ParseInteger(text, value);
}

absl::Status ParseValue(const std::string& text, float* value) {
  float parsed;
  if (!absl::SimpleAtof(text, &parsed)) return Expected(text, "a number");
  *value = parsed;
  return absl::OkStatus();
}

absl::Status ParseValue(const std::string& text, std::vector<std::string>* value) {
  value->push_back(text);
  return absl::OkStatus();
}

absl::Status ParseValue(const std::string& text, std::vector<int32_t>* value) {
  absl::StatusOr<std::vector<int32_t>> ids = ParseIds(text);
  if (!ids.ok()) return ids.status();
  *value = *std::move(ids);
  return absl::OkStatus();
}

}  // namespace quire::cli
