#include "server/log_fields.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace quire {
namespace {

constexpr absl::string_view kBegin = "\x1e";
constexpr absl::string_view kSeparator = "\x1f";

}  // namespace

LogFields::LogFields(absl::string_view message) : line_(absl::StrCat(kBegin, message)) {}

LogFields& LogFields::Add(absl::string_view key, absl::string_view text) {
  AddJson(key, QuoteAscii(text));
  return *this;
}

LogFields& LogFields::Add(absl::string_view key, int64_t number) {
  AddJson(key, absl::StrCat(number));
  return *this;
}

LogFields& LogFields::AddMs(absl::string_view key, int64_t us) {
  AddJson(key, absl::StrFormat("%.3f", static_cast<double>(us) / 1000));
  return *this;
}

void LogFields::AddJson(absl::string_view key, absl::string_view value) {
  absl::StrAppend(&line_, kSeparator, key, "=", value);
}

LogLine ParseLogLine(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, kBegin)) return {.message = line};
  LogLine parsed;
  for (const absl::string_view part : absl::StrSplit(line, kSeparator)) {
    if (parsed.message.data() == nullptr) {
      parsed.message = part;
    } else {
      const size_t equals = part.find('=');
      if (equals == absl::string_view::npos) continue;
      parsed.fields.emplace_back(part.substr(0, equals), part.substr(equals + 1));
    }
  }
  return parsed;
}

std::string QuoteAscii(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      absl::StrAppendFormat(&quoted, "\\u%04x", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace quire
