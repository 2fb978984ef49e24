#include "server/cli/log_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "server/cli/report.h"
#include "server/log_fields.h"

namespace quire::cli {
namespace {

// A value as JSON, without quotes where they are not needed to see where it ends.
absl::string_view Bare(absl::string_view json) {
  if (json.size() < 3 || json.front() != '"') return json;
  const absl::string_view text = json.substr(1, json.size() - 2);
  return text.find_first_of(" \"\\=") == absl::string_view::npos ? text : json;
}

// How many bytes of UTF-8 in front of `text` are a character outside of ASCII; 0: none is there.
// Overlong forms and surrogates pass as what terminals show a replacement for.
size_t WideCharacterSize(absl::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (const char c : text.substr(1, size - 1)) {
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) return 0;
  }
  // U+0080 to U+009F are control characters.
  return first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0 ? 0 : size;
}

// One line that leaves a terminal as it is: ends of lines are blanks, and other control characters,
// as well as what is not UTF-8, are written as \x1b.
std::string Plain(absl::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const size_t size = byte < 0x80 ? 1 : WideCharacterSize(text);
    if (byte == '\n' || byte == '\r') {
      plain += ' ';
    } else if (size == 0 || byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&plain, "\\x%02x", byte);
    } else {
      plain.append(text.data(), size);
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return plain;
}

}  // namespace

std::string TextOfLine(absl::string_view line) {
  const LogLine parsed = ParseLogLine(line);
  std::string text = Plain(parsed.message);
  for (const auto& [key, value] : parsed.fields) absl::StrAppend(&text, " ", key, "=", Bare(value));
  return text;
}

std::string JsonOfLine(absl::string_view line) {
  const LogLine parsed = ParseLogLine(line);
  std::string text = absl::StrCat("\"message\":", OneLine(Json(std::string(parsed.message))));
  for (const auto& [key, value] : parsed.fields) {
    absl::StrAppend(&text, ",\"", key, "\":", value);
  }
  return text;
}

}  // namespace quire::cli
