#include "server/stack_dump.h"

#include <csignal>
#include <future>
#include <pthread.h>
#include <semaphore.h>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace quire {

// Where the threads of the tests are found. Not static: their names are to be seen.
__attribute__((noinline)) void WaitInAFunctionThatIsNamed(sem_t* until) {
  while (sem_wait(until) != 0) {
  }
  asm volatile("");  // no tail call: this frame stays
}

namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// A thread with a name, in a function with a name, until the test is over.
class Sleeper {
 public:
  // `block`: it does not take the signal that asks for its stack.
  explicit Sleeper(const char* name, bool block = false) {
    sem_init(&until_, 0, 0);
    std::promise<void> started;
    thread_ = std::thread([this, name, block, &started] {
      pthread_setname_np(pthread_self(), name);
      sigset_t all;
      sigfillset(&all);
      if (block) pthread_sigmask(SIG_BLOCK, &all, nullptr);
      started.set_value();
      WaitInAFunctionThatIsNamed(&until_);
    });
    started.get_future().wait();
  }
  ~Sleeper() {
    sem_post(&until_);
    thread_.join();
  }

 private:
  sem_t until_;
  std::thread thread_;
};

TEST(StackDumpTest, EveryOtherThreadHasItsNameAndItsStack) {
  Sleeper first("first-sleeper");
  Sleeper second("second-sleeper");
  pthread_setname_np(pthread_self(), "the-caller");
  const std::vector<std::string> stacks = DumpStacks(/*patience_ms=*/5000);
  for (const char* name : {" first-sleeper, state ", " second-sleeper, state "}) {
    EXPECT_THAT(stacks,
                Contains(AllOf(HasSubstr(name), HasSubstr("quire::WaitInAFunctionThatIsNamed()"),
                               HasSubstr("+0x"))));
  }
  EXPECT_THAT(stacks, Not(Contains(HasSubstr("the-caller"))));
}

TEST(StackDumpTest, AThreadThatDoesNotAnswerIsListedAndWaitedForOnce) {
  Sleeper deaf("deaf-sleeper", /*block=*/true);
  Sleeper other("other-sleeper");
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(DumpStacks(/*patience_ms=*/1000),
                Contains(AllOf(HasSubstr(" deaf-sleeper, state S"),
                               HasSubstr("no answer within 1000 ms"))));
  }
}

}  // namespace
}  // namespace quire
