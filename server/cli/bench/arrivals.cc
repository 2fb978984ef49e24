#include "server/cli/bench/arrivals.h"

#include <cmath>
#include <random>

namespace quire::cli::bench {

std::vector<double> Arrivals(ArrivalKind kind, int64_t count, double rate, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> arrivals;
  arrivals.reserve(count);
  double now = 0;
  for (int64_t i = 0; i < count; ++i) {
    arrivals.push_back(now);
    // In (0, 1], from the upper 53 bits. Not by std::exponential_distribution: that one's numbers
    // are another library's choice.
    const double uniform = (static_cast<double>(random() >> 11) + 1) * 0x1p-53;
    now = kind == ArrivalKind::kFixed ? static_cast<double>(i + 1) / rate
                                      : now - std::log(uniform) / rate;
  }
  return arrivals;
}

}  // namespace quire::cli::bench
