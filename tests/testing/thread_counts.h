#ifndef QUIRE_TESTS_TESTING_THREAD_COUNTS_H_
#define QUIRE_TESTS_TESTING_THREAD_COUNTS_H_

#include <cstdint>

namespace quire {

// What the calling thread has asked of the heap and of the kernel since it started. Linking
// thread_counts.cc puts functions of that binary before libc's: malloc and its kin, `syscall` (by
// which absl::Mutex wakes) and pthread_cond_signal and _broadcast (by which std::condition_variable
// does). Not seen are wakes inside of libc: of a contended std::mutex, of a thread that ends.
struct ThreadCounts {
  int64_t num_allocations = 0;
  int64_t num_page_faults = 0;
  int64_t num_wakes = 0;  // attempts: also where nobody slept

  friend ThreadCounts operator-(const ThreadCounts& a, const ThreadCounts& b) {
    return {a.num_allocations - b.num_allocations, a.num_page_faults - b.num_page_faults,
            a.num_wakes - b.num_wakes};
  }
};

ThreadCounts CountsOfThisThread();

// False: this build counts nothing, because a sanitizer has put its own functions before libc's.
bool CanCountThreads();

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_THREAD_COUNTS_H_
