#include "server/cli/config_file.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "server/cli/report.h"
#include "server/read_file.h"

// The only file that sees toml++, which is slow to compile.
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace quire::cli {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

// Exactly as much as it takes to read the same number again, and no exponent.
std::string TextOf(double number) {
  char buffer[400];
  const auto end =
      std::to_chars(std::begin(buffer), std::end(buffer), number, std::chars_format::fixed).ptr;
  return std::string(buffer, end);
}

// Fails with what the node is instead of a plain value.
absl::StatusOr<std::string> TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return absl::StrCat(number->get());
  if (const auto* number = node.as_floating_point()) return TextOf(number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  if (node.is_table()) return absl::InvalidArgumentError("is a table; there are no tables here");
  if (node.is_array()) return absl::InvalidArgumentError("is a list in a list");
  return absl::InvalidArgumentError("is a date or a time; put it in quotes if it is a text");
}

absl::StatusOr<FileEntry> EntryOf(const toml::key& key, const toml::node& node) {
  FileEntry entry{.key = std::string(key.str()), .line = static_cast<int>(key.source().begin.line)};
  std::vector<const toml::node*> values = {&node};
  if (const toml::array* array = node.as_array()) {
    entry.is_array = true;
    values.clear();
    for (const toml::node& element : *array) values.push_back(&element);
  }
  for (const toml::node* value : values) {
    absl::StatusOr<std::string> text = TextOf(*value);
    if (!text.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(entry.line, ": ", entry.key, " ", text.status().message()));
    }
    entry.texts.push_back(*std::move(text));
  }
  return entry;
}

// As it may stand between quotes, or in a comment. JSON's escapes are TOML's too.
std::string Escaped(const std::string& text) {
  const std::string quoted = OneLine(Json(text));
  return absl::StrReplaceAll(quoted.substr(1, quoted.size() - 2), {{"\x7f", "\\u007f"}});
}

// Numbers and booleans that read back as the same text need no quotes.
absl::StatusOr<std::string> ValueOf(const std::string& text) {
  int64_t number;
  const bool is_number = absl::SimpleAtoi(text, &number) && absl::StrCat(number) == text;
  if (is_number || text == "true" || text == "false") return text;
  std::string quoted = absl::StrCat("\"", Escaped(text), "\"");
  const absl::StatusOr<Json> read = ParseJson(quoted);
  if (!read.ok() || *read != Json(text)) {
    return absl::InvalidArgumentError(absl::StrCat(quoted, " is not UTF-8, and TOML is"));
  }
  return quoted;
}

}  // namespace

absl::StatusOr<std::vector<FileEntry>> ReadConfigFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile("cannot read", path, kMaxFileBytes);
  if (!text.ok()) return absl::NotFoundError(text.status().message());
  const toml::parse_result parsed = toml::parse(*text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.source().begin.line, ": ", std::string(error.description())));
  }
  std::vector<FileEntry> entries;
  for (const auto& [key, node] : parsed.table()) {
    absl::StatusOr<FileEntry> entry = EntryOf(key, node);
    if (!entry.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", entry.status().message()));
    }
    entries.push_back(*std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const FileEntry& a, const FileEntry& b) { return a.line < b.line; });
  return entries;
}

absl::StatusOr<std::string> ConfigLine(const FileEntry& entry, const std::string& comment) {
  if (entry.texts.empty() && !entry.is_array) {
    return absl::StrCat("# ", entry.key, " is not set: ", Escaped(comment));
  }
  std::vector<std::string> values;
  for (const std::string& text : entry.texts) {
    absl::StatusOr<std::string> value = ValueOf(text);
    if (!value.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(entry.key, ": ", value.status().message()));
    }
    values.push_back(*std::move(value));
  }
  const std::string list = absl::StrJoin(values, ", ");
  return absl::StrCat(entry.key, " = ", entry.is_array ? absl::StrCat("[", list, "]") : list,
                      "  # ", Escaped(comment));
}

}  // namespace quire::cli
