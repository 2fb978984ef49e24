#include "tests/testing/thread_counts.h"

#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

namespace quire {
bool CanCountThreads() { return false; }
ThreadCounts CountsOfThisThread() { return {}; }
}  // namespace quire

#else

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <linux/futex.h>

namespace {

// Of a type that needs no construction: malloc is called before anything is constructed.
thread_local int64_t num_allocations = 0;
thread_local int64_t num_wakes = 0;

bool IsWake(int64_t number, int64_t futex_op) {
  if (number != SYS_futex) return false;
  const int64_t command = futex_op & FUTEX_CMD_MASK;
  return command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET || command == FUTEX_WAKE_OP ||
         command == FUTEX_REQUEUE || command == FUTEX_CMP_REQUEUE;
}

using CondFn = int (*)(pthread_cond_t*);

// The version is that of all programs of this architecture but those of 2003.
CondFn OfLibc(const char* name) {
  return reinterpret_cast<CondFn>(dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2"));
}

}  // namespace

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  ++num_allocations;
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  ++num_allocations;
  return __libc_calloc(count, bytes);
}

void* realloc(void* memory, size_t bytes) {
  ++num_allocations;
  return __libc_realloc(memory, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  ++num_allocations;
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  ++num_allocations;
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  ++num_allocations;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

int pthread_cond_signal(pthread_cond_t* cond) {
  static const CondFn of_libc = OfLibc("pthread_cond_signal");
  ++num_wakes;
  return of_libc(cond);
}

int pthread_cond_broadcast(pthread_cond_t* cond) {
  static const CondFn of_libc = OfLibc("pthread_cond_broadcast");
  ++num_wakes;
  return of_libc(cond);
}

// As libc's: six words, whatever the call needs of them.
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long args[6];
  for (long& arg : args) arg = va_arg(list, long);
  va_end(list);
  if (IsWake(number, args[1])) ++num_wakes;
  register long r10 asm("r10") = args[3];
  register long r8 asm("r8") = args[4];
  register long r9 asm("r9") = args[5];
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(args[0]), "S"(args[1]), "d"(args[2]), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  if (result < 0 && result > -4096) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return result;
}

}  // extern "C"

namespace quire {

bool CanCountThreads() { return true; }

ThreadCounts CountsOfThisThread() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return {num_allocations, usage.ru_minflt + usage.ru_majflt, num_wakes};
}

}  // namespace quire

#endif
