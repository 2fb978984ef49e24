#ifndef QUIRE_TESTS_SIM_CHECK_CATCHER_H_
#define QUIRE_TESTS_SIM_CHECK_CATCHER_H_

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <string>

namespace quire {

// CheckCatcher answers which QUIRE_CHECK a call fails, if any, and lets the process live on, so
// that RapidCheck can shrink what led to it. It catches SIGABRT and jumps out of the handler.
//
// The jump skips the destructors of the frames between, which C++ leaves undefined, and leaves the
// object under test in the middle of a call. Both are acceptable here: it happens only where a test
// is failing anyway; a CHECK ends no call that a lock or an exception depends on; all that is lost
// is memory. After it, use the object under test for nothing but its end.
//
// Not reentrant, one thread.
class CheckCatcher {
 public:
  // Runs `body`. Returns what a CHECK said that failed in it, "" when none did. Exceptions pass.
  template <typename Body>
  static std::string Run(const Body& body) {
    const Armed armed;
    // Nothing that changes between here and the jump is used after it but what is static.
    if (sigsetjmp(jump_out, /*savemask=*/1) != 0) return Message();
    body();
    return "";
  }

 private:
  // While it lives, SIGABRT jumps, and what a CHECK prints is kept instead of printed: shrinking
  // fails hundreds of times.
  class Armed {
   public:
    Armed() {
      struct sigaction action = {};
      action.sa_handler = &CheckCatcher::Jump;
      sigemptyset(&action.sa_mask);
      sigaction(SIGABRT, &action, &old_action_);
      old_stderr_ = stderr;
      static FILE* const kept = OpenKept();
      std::rewind(kept);
      kept_text[0] = '\0';
      stderr = kept;  // glibc lets it be assigned
    }
    ~Armed() {
      stderr = old_stderr_;
      sigaction(SIGABRT, &old_action_, nullptr);
    }
    Armed(const Armed&) = delete;
    Armed& operator=(const Armed&) = delete;

   private:
    static FILE* OpenKept() {
      FILE* const kept = fmemopen(kept_text, sizeof(kept_text), "w");
      std::setvbuf(kept, nullptr, _IONBF, 0);
      return kept;
    }
    struct sigaction old_action_ = {};
    FILE* old_stderr_ = nullptr;
  };

  static void Jump(int /*signal*/) { siglongjmp(jump_out, 1); }
  static std::string Message() {
    std::string message = kept_text;
    while (!message.empty() && message.back() == '\n') message.pop_back();
    return message.empty() ? "aborted" : message;
  }

  static inline sigjmp_buf jump_out;
  static inline char kept_text[1024] = {};
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_CHECK_CATCHER_H_
