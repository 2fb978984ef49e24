#include "server/cli/log_line.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

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

}  // namespace

std::string TextOfLine(absl::string_view line) {
  const LogLine parsed = ParseLogLine(line);
  std::string text = absl::StrReplaceAll(parsed.message, {{"\n", " "}, {"\r", " "}});
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
