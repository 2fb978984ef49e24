#include "server/cli/bench/length_files.h"

#include <functional>
#include <limits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "server/cli/report.h"

namespace quire::cli::bench {
namespace {

constexpr int64_t kMaxTokens = 1 << 24;  // far above any model's context

absl::Status Expected(const char* field, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat(field, " must be ", what));
}

bool IsWhole(const Json& value, int64_t min, int64_t max) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(max)) {
    return false;
  }
  const auto number = value.get<int64_t>();
  return number >= min && number <= max;
}

absl::Status ReadLength(const Json& line, const char* field, int32_t* value) {
  const auto found = line.find(field);
  if (found == line.end() || !IsWhole(*found, 1, kMaxTokens)) {
    return Expected(field, "there, a whole number of 1 or more");
  }
  *value = found->get<int32_t>();
  return absl::OkStatus();
}

// A list of whole numbers in [0, max].
template <typename T>
absl::Status ReadList(const Json& list, const char* field, std::vector<T>* values) {
  if (!list.is_array()) return Expected(field, "a list");
  for (const Json& value : list) {
    if (!IsWhole(value, 0, std::numeric_limits<T>::max())) {
      return Expected(field, "a list of whole numbers of 0 or more");
    }
    values->push_back(value.get<T>());
  }
  return absl::OkStatus();
}

absl::Status ReadTraceLine(const Json& line, TraceLine* read) {
  if (absl::Status status = ReadLength(line, "input_length", &read->prompt_tokens); !status.ok()) {
    return status;
  }
  if (absl::Status status = ReadLength(line, "output_length", &read->new_tokens); !status.ok()) {
    return status;
  }
  const auto hash_ids = line.find("hash_ids");
  if (hash_ids == line.end()) return absl::OkStatus();
  return ReadList(*hash_ids, "hash_ids", &read->hash_ids);
}

absl::Status ReadPromptLine(const Json& line, PromptLine* read) {
  const auto ids = line.find("ids");
  if (ids == line.end()) return Expected("ids", "there, a list of token ids");
  if (absl::Status status = ReadList(*ids, "ids", &read->ids); !status.ok()) return status;
  if (read->ids.empty()) return Expected("ids", "a list with a token or more");
  if (!line.contains("max_tokens")) return absl::OkStatus();
  return ReadLength(line, "max_tokens", &read->new_tokens);
}

template <typename Line>
absl::StatusOr<std::vector<Line>> ParseLines(
    const std::string& text, absl::string_view name,
    absl::FunctionRef<absl::Status(const Json& line, Line* read)> read_line) {
  std::vector<Line> lines;
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const absl::StatusOr<Json> json = ParseJson(std::string(line));
    absl::Status status = json.status();
    if (status.ok() && !json->is_object()) {
      status = absl::InvalidArgumentError("not a JSON object");
    }
    if (status.ok()) status = read_line(*json, &lines.emplace_back());
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", status.message()));
    }
  }
  if (lines.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": has no lines"));
  return lines;
}

}  // namespace

absl::StatusOr<std::vector<TraceLine>> ParseTrace(const std::string& text, absl::string_view name) {
  return ParseLines<TraceLine>(text, name, ReadTraceLine);
}

absl::StatusOr<std::vector<PromptLine>> ParsePrompts(const std::string& text,
                                                     absl::string_view name) {
  return ParseLines<PromptLine>(text, name, ReadPromptLine);
}

}  // namespace quire::cli::bench
