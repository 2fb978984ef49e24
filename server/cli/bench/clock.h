#ifndef QUIRE_SERVER_CLI_BENCH_CLOCK_H_
#define QUIRE_SERVER_CLI_BENCH_CLOCK_H_

#include <ctime>

namespace quire::cli::bench {

// Seconds on the machine's monotonic clock, which other programs read too (Python:
// time.monotonic()), so that times of several of them can be compared.
inline double MonotonicSeconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_CLOCK_H_
