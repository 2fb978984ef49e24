#ifndef QUIRE_SERVER_CLI_LOG_LINE_H_
#define QUIRE_SERVER_CLI_LOG_LINE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace quire::cli {

// A line of the log, which may have fields (server/log_fields.h), as it is read:
//   request method=Generate status=OK ttft_ms=12.500
//   "message":"request","method":"Generate","status":"OK","ttft_ms":12.500
// The second is the inside of a JSON object. Both stay one line, whatever the text has in it, and
// the first has no control characters, which a terminal would obey.
std::string TextOfLine(absl::string_view line);
std::string JsonOfLine(absl::string_view line);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_LOG_LINE_H_
