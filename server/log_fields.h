#ifndef QUIRE_SERVER_LOG_FIELDS_H_
#define QUIRE_SERVER_LOG_FIELDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace quire {

// A line of the log that has fields beside its words: keys of a JSON object in one format,
// key=value in the other. The log knows lines of text only, so the fields travel in the text, in a
// form that no other line has (it begins with a control character); whoever formats lines takes
// them out.
class LogFields {
 public:
  // `message`: plain words.
  explicit LogFields(absl::string_view message);
  // `key`: lower case and underscores. A text is quoted, so it may hold anything.
  LogFields& Add(absl::string_view key, absl::string_view text);
  LogFields& Add(absl::string_view key, int64_t number);
  LogFields& AddMs(absl::string_view key, int64_t us);  // in milliseconds, to a microsecond
  const std::string& line() const { return line_; }

 private:
  void AddJson(absl::string_view key, absl::string_view value);

  std::string line_;
};

// A line taken apart. A line without fields is all message.
struct LogLine {
  absl::string_view message = {};
  std::vector<std::pair<absl::string_view, absl::string_view>> fields = {};  // value: as JSON
};
LogLine ParseLogLine(absl::string_view line);

// The text as a JSON string, quotes included. Bytes that are not printable ASCII are escaped.
std::string QuoteAscii(absl::string_view text);

}  // namespace quire

#endif  // QUIRE_SERVER_LOG_FIELDS_H_
