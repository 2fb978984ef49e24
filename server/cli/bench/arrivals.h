#ifndef QUIRE_SERVER_CLI_BENCH_ARRIVALS_H_
#define QUIRE_SERVER_CLI_BENCH_ARRIVALS_H_

#include <cstdint>
#include <vector>

namespace quire::cli::bench {

enum class ArrivalKind {
  kPoisson,  // independent of each other, as those of many users are
  kFixed,    // one like the other
};

// When `count` requests arrive, in seconds from the beginning, rising, `rate` a second on average.
// The first comes at 0. The same seed gives the same times. REQUIRES: rate > 0.
std::vector<double> Arrivals(ArrivalKind kind, int64_t count, double rate, uint64_t seed);

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_ARRIVALS_H_
