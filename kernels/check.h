#ifndef QUIRE_KERNELS_CHECK_H_
#define QUIRE_KERNELS_CHECK_H_

#include <cstdio>
#include <cstdlib>

// Ends the process when `condition` is false: for errors of the programmer, never of a client, a
// file or the environment. `message` is a string literal that says what was asked of the caller.
#define QUIRE_CHECK(condition, message)                                                     \
  do {                                                                                      \
    if (__builtin_expect(!(condition), 0)) {                                                \
      std::fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, "" message, #condition); \
      std::abort();                                                                         \
    }                                                                                       \
  } while (false)

#endif  // QUIRE_KERNELS_CHECK_H_
