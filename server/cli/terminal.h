#ifndef QUIRE_SERVER_CLI_TERMINAL_H_
#define QUIRE_SERVER_CLI_TERMINAL_H_

#include <atomic>
#include <string>

namespace quire::cli {

// Whether colours are welcome on stdout or stderr: it is a terminal, and NO_COLOR is not set.
bool HasColours(int fd);

// The person in front of a chat: lines typed on stdin, prompts and notes on stderr. Where stdin is
// no terminal there are no prompts, and colours only where stderr is one and NO_COLOR is not set.
//
// One thread, but for Interrupt.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool is_interactive() const { return is_interactive_; }

  enum class Input { kLine, kEnd, kInterrupted };
  // Shows the prompt and waits for a line (without its end), for the end of the input, or for
  // Interrupt. A line that ends with a backslash goes on in the next one.
  Input ReadLine(const std::string& prompt, std::string* line);
  // Ends a ReadLine that waits, or the next one. Any thread.
  void Interrupt();
  // Forgets interrupts that no ReadLine has seen.
  void ClearInterrupts();

  // A line of ours on stderr, dimmed.
  void Note(const std::string& text);

 private:
  Input ReadPart(const std::string& prompt, std::string* line);
  void ShowPrompt(const std::string& prompt);

  const bool is_interactive_;
  const bool has_colours_;
  const int interrupt_fd_;
  std::string buffer_;  // read, but not yet a line
  bool at_end_ = false;
};

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_TERMINAL_H_
