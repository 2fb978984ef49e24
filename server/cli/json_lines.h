#ifndef QUIRE_SERVER_CLI_JSON_LINES_H_
#define QUIRE_SERVER_CLI_JSON_LINES_H_

#include <cstdint>
#include <functional>
#include <istream>
#include <ostream>
#include <string>

#include "server/cli/exit_code.h"
#include "server/cli/report.h"

namespace quire::cli {

// Makes one result of one line: an object, or {"error": ...} (report.h). Called from several
// threads at once where the concurrency is above 1.
using AnswerLine = std::function<Json(const Json& line)>;

// JSON Lines in, JSON Lines out: one result per line that is not blank, in order, each written as
// soon as those before it are. Up to `concurrency` lines are in work at once. A line that is not
// JSON gives an error as its result and the rest go on.
struct LineCounts {
  int64_t answered = 0;
  int64_t failed = 0;
};
LineCounts AnswerLines(std::istream& in, std::ostream& out, int concurrency,
                       const AnswerLine& answer);

// The same from `file`, or from stdin where it is empty, to stdout. Fails with kUsage when the file
// cannot be read to its end. Lines that failed are counted on stderr; their errors are results, so
// the exit code stays kOk.
ExitCode AnswerLinesOf(const std::string& file, int concurrency, const AnswerLine& answer);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_JSON_LINES_H_
