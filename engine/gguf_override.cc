#include "engine/gguf_override.h"

#include <cmath>
#include <sys/stat.h>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "engine/mapped_file.h"

namespace quire {

absl::StatusOr<GgufOverride> ParseGgufOverride(absl::string_view text) {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " ", what,
                     "; expected KEY=TYPE:VALUE with TYPE one of int, float, bool, str"));
  };
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0) return bad("has no key before a '='");
  const absl::string_view rest = text.substr(equals + 1);
  const size_t colon = rest.find(':');
  if (colon == absl::string_view::npos) return bad("has no ':' after the type");
  const absl::string_view type = rest.substr(0, colon);
  const absl::string_view value = rest.substr(colon + 1);

  GgufOverride result;
  result.key = std::string(text.substr(0, equals));
  if (type == "int") {
    int64_t number = 0;
    if (!absl::SimpleAtoi(value, &number)) return bad("has no whole number of 64 bits as value");
    result.value = number;
  } else if (type == "float") {
    double number = 0;
    if (!absl::SimpleAtod(value, &number) || !std::isfinite(number)) {
      return bad("has no finite number as value");
    }
    result.value = number;
  } else if (type == "bool") {
    if (value != "true" && value != "false") return bad("has neither true nor false as value");
    result.value = value == "true";
  } else if (type == "str") {
    result.value = std::string(value);
  } else {
    return bad(absl::StrCat("has the type ", Quoted(type)));
  }
  return result;
}

std::string ToText(const GgufOverride& override) {
  const auto& value = override.value;
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return absl::StrCat(override.key, "=int:", *number);
  }
  if (const auto* number = std::get_if<double>(&value)) {
    return absl::StrFormat("%s=float:%.17g", override.key, *number);
  }
  if (const auto* yes = std::get_if<bool>(&value)) {
    return absl::StrCat(override.key, "=bool:", *yes ? "true" : "false");
  }
  return absl::StrCat(override.key, "=str:", std::get<std::string>(value));
}

bool IsGgufFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

absl::Status CheckOverrides(const std::string& path, absl::Span<const GgufOverride> overrides) {
  if (overrides.empty() || IsGgufFile(path)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": is no GGUF file, so that there is no metadata to put ",
                   Quoted(ToText(overrides.front())), " into; change its config.json"));
}

}  // namespace quire
