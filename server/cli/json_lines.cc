#include "server/cli/json_lines.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace quire::cli {
namespace {

bool IsBlank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

Json Answer(const std::string& line, const AnswerLine& answer) {
  const absl::StatusOr<Json> parsed = ParseJson(line);
  if (parsed.ok()) return answer(*parsed);
  constexpr size_t kMost = 60;
  const std::string start = line.size() > kMost ? line.substr(0, kMost) + "..." : line;
  return ToJson(
      Failure{.code = "INVALID_ARGUMENT",
              .reason = "INVALID_FIELD",
              .message = absl::StrCat("the line is ", parsed.status().message(), ": ", start)});
}

// Hands lines out, and takes results in any order but writes them in the order of their lines.
class Lines {
 public:
  Lines(std::istream& in, std::ostream& out) : in_(in), out_(out) {}

  // False at the end of the input.
  bool Next(std::string* line, size_t* line_idx) ABSL_LOCKS_EXCLUDED(in_mutex_) {
    absl::MutexLock lock(&in_mutex_);
    do {
      if (!std::getline(in_, *line)) return false;
    } while (IsBlank(*line));
    *line_idx = num_read_++;
    return true;
  }

  void Done(size_t line_idx, const Json& result) ABSL_LOCKS_EXCLUDED(out_mutex_) {
    std::string text = OneLine(result);
    absl::MutexLock lock(&out_mutex_);
    ++counts_.answered;
    if (result.contains("error")) ++counts_.failed;
    waiting_.emplace(line_idx, std::move(text));
    while (!waiting_.empty() && waiting_.begin()->first == num_written_) {
      out_ << waiting_.begin()->second << '\n' << std::flush;
      waiting_.erase(waiting_.begin());
      ++num_written_;
    }
  }

  LineCounts counts() ABSL_LOCKS_EXCLUDED(out_mutex_) {
    absl::MutexLock lock(&out_mutex_);
    return counts_;
  }

 private:
  absl::Mutex in_mutex_;
  std::istream& in_ ABSL_GUARDED_BY(in_mutex_);
  size_t num_read_ ABSL_GUARDED_BY(in_mutex_) = 0;
  absl::Mutex out_mutex_;
  std::ostream& out_ ABSL_GUARDED_BY(out_mutex_);
  size_t num_written_ ABSL_GUARDED_BY(out_mutex_) = 0;
  LineCounts counts_ ABSL_GUARDED_BY(out_mutex_);
  std::map<size_t, std::string> waiting_ ABSL_GUARDED_BY(out_mutex_);
};

}  // namespace

LineCounts AnswerLines(std::istream& in, std::ostream& out, int concurrency,
                       const AnswerLine& answer) {
  // Reading from std::cin would flush std::cout, which another thread may be writing to.
  in.tie(nullptr);
  Lines lines(in, out);
  const auto work = [&] {
    std::string line;
    size_t line_idx;
    while (lines.Next(&line, &line_idx)) lines.Done(line_idx, Answer(line, answer));
  };
  std::vector<std::thread> others;
  for (int i = 1; i < concurrency; ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  return lines.counts();
}

ExitCode AnswerLinesOf(const std::string& file, int concurrency, const AnswerLine& answer) {
  std::ifstream opened;
  if (!file.empty()) {
    opened.open(file);
    if (!opened) {
      return Fail(ExitCode::kUsage, absl::StrCat("cannot read ", file, ": ", std::strerror(errno)));
    }
  }
  std::istream& in = file.empty() ? std::cin : opened;
  const LineCounts counts = AnswerLines(in, std::cout, concurrency, answer);
  if (counts.failed > 0) {
    std::cerr << "quire: " << counts.failed << " of " << counts.answered << " lines failed\n";
  }
  if (in.bad()) {
    return Fail(ExitCode::kUsage, absl::StrCat("cannot read ", file.empty() ? "stdin" : file,
                                               " to its end: is it a file?"));
  }
  return ExitCode::kOk;
}

}  // namespace quire::cli
