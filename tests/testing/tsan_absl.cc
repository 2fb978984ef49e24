// Lets ThreadSanitizer see absl::Mutex. The system's Abseil is not instrumented, so that what a
// Mutex orders looks unordered, in our code and in gRPC's. The functions here take the place of
// those in the shared library, also for calls from other libraries, and add what ThreadSanitizer
// needs to know. Linked into tests of the `tsan` preset only.
#include <dlfcn.h>

#include "absl/synchronization/mutex.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace {

// The library's own function of that (mangled) name.
template <class Result, class... Arguments>
Result CallLibrary(const char* name, Arguments... arguments) {
  using Function = Result (*)(Arguments...);
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name))(arguments...);
}

// A condition is looked at with the mutex held, from inside the library.
struct SeenCondition {
  Mutex* mutex;
  const Condition* condition;

  static bool Eval(SeenCondition* seen) {
    __tsan_acquire(seen->mutex);
    const bool met = seen->condition->Eval();
    __tsan_release(seen->mutex);
    return met;
  }
};

}  // namespace

// The namespace between absl and the class is Debian's: absl::debian3.
#define QUIRE_ABSL(name) "_ZN4absl7debian3" name

void Mutex::Lock() {
  CallLibrary<void>(QUIRE_ABSL("5Mutex4LockEv"), this);
  __tsan_acquire(this);
}
void Mutex::Unlock() {
  __tsan_release(this);
  CallLibrary<void>(QUIRE_ABSL("5Mutex6UnlockEv"), this);
}
bool Mutex::TryLock() {
  const bool locked = CallLibrary<bool>(QUIRE_ABSL("5Mutex7TryLockEv"), this);
  if (locked) __tsan_acquire(this);
  return locked;
}
void Mutex::ReaderLock() {
  CallLibrary<void>(QUIRE_ABSL("5Mutex10ReaderLockEv"), this);
  __tsan_acquire(this);
}
void Mutex::ReaderUnlock() {
  __tsan_release(this);
  CallLibrary<void>(QUIRE_ABSL("5Mutex12ReaderUnlockEv"), this);
}
void Mutex::Await(const Condition& condition) {
  SeenCondition seen = {this, &condition};
  const Condition wrapped(&SeenCondition::Eval, &seen);
  __tsan_release(this);
  CallLibrary<void>(QUIRE_ABSL("5Mutex5AwaitERKNS0_9ConditionE"), this, &wrapped);
  __tsan_acquire(this);
}
bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  SeenCondition seen = {this, &condition};
  const Condition wrapped(&SeenCondition::Eval, &seen);
  __tsan_release(this);
  const bool met =
      CallLibrary<bool>(QUIRE_ABSL("5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE"),
                        this, &wrapped, timeout);
  __tsan_acquire(this);
  return met;
}
void Mutex::LockWhen(const Condition& condition) {
  SeenCondition seen = {this, &condition};
  const Condition wrapped(&SeenCondition::Eval, &seen);
  CallLibrary<void>(QUIRE_ABSL("5Mutex8LockWhenERKNS0_9ConditionE"), this, &wrapped);
  __tsan_acquire(this);
}
void CondVar::Wait(Mutex* mutex) {
  __tsan_release(mutex);
  CallLibrary<void>(QUIRE_ABSL("7CondVar4WaitEPNS0_5MutexE"), this, mutex);
  __tsan_acquire(mutex);
}
bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  __tsan_release(mutex);
  const bool timed_out = CallLibrary<bool>(
      QUIRE_ABSL("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE"), this, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}
bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  __tsan_release(mutex);
  const bool timed_out = CallLibrary<bool>(
      QUIRE_ABSL("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE"), this, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}

ABSL_NAMESPACE_END
}  // namespace absl
