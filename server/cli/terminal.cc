#include "server/cli/terminal.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "absl/strings/string_view.h"

#include "kernels/check.h"

namespace quire::cli {
namespace {

constexpr char kDim[] = "\x1b[2m";
constexpr char kBold[] = "\x1b[1;36m";
constexpr char kPlain[] = "\x1b[0m";

}  // namespace

// https://no-color.org: set and not empty.
bool HasColours(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(fd) && (no_color == nullptr || *no_color == '\0') && term != nullptr &&
         absl::string_view(term) != "dumb";
}

Terminal::Terminal()
    : is_interactive_(isatty(STDIN_FILENO)),
      has_colours_(HasColours(STDERR_FILENO)),
      interrupt_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  QUIRE_CHECK(interrupt_fd_ >= 0, "out of file descriptors");
}

Terminal::~Terminal() { close(interrupt_fd_); }

void Terminal::Interrupt() { (void)eventfd_write(interrupt_fd_, 1); }

void Terminal::ClearInterrupts() {
  eventfd_t count;
  (void)eventfd_read(interrupt_fd_, &count);
}

void Terminal::Note(const std::string& text) {
  std::fprintf(stderr, "%s%s%s\n", has_colours_ ? kDim : "", text.c_str(),
               has_colours_ ? kPlain : "");
}

void Terminal::ShowPrompt(const std::string& prompt) {
  if (!is_interactive_) return;
  std::fprintf(stderr, "%s%s%s", has_colours_ ? kBold : "", prompt.c_str(),
               has_colours_ ? kPlain : "");
}

Terminal::Input Terminal::ReadLine(const std::string& prompt, std::string* line) {
  line->clear();
  std::string part;
  Input input = ReadPart(prompt, &part);
  while (input == Input::kLine && !part.empty() && part.back() == '\\') {
    part.pop_back();
    *line += part + "\n";
    input = ReadPart(std::string(prompt.size() - 2, ' ') + "| ", &part);
  }
  *line += part;
  return input;
}

Terminal::Input Terminal::ReadPart(const std::string& prompt, std::string* line) {
  line->clear();
  ShowPrompt(prompt);
  while (true) {
    const size_t end = buffer_.find('\n');
    if (end != std::string::npos || (at_end_ && !buffer_.empty())) {
      *line = buffer_.substr(0, end);
      buffer_.erase(0, end == std::string::npos ? end : end + 1);
      return Input::kLine;
    }
    if (at_end_) return Input::kEnd;
    pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {interrupt_fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return Input::kEnd;
    if (fds[1].revents != 0) {
      ClearInterrupts();
      buffer_.clear();
      return Input::kInterrupted;
    }
    if (fds[0].revents == 0) continue;
    char chunk[4096];
    const ssize_t count = read(STDIN_FILENO, chunk, sizeof(chunk));
    if (count > 0) {
      buffer_.append(chunk, static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      at_end_ = true;
    }
  }
}

}  // namespace quire::cli
