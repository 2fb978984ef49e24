#ifndef QUIRE_KERNELS_CPU_SAMPLING_RULE_H_
#define QUIRE_KERNELS_CPU_SAMPLING_RULE_H_

#include <algorithm>
#include <cstdint>

// The thresholds of the filters as integers (kernels/README.md, "Sampling"). A weight is
// floor(exp(score - max) * 2^40), so the most likely token weighs kFullWeight.

namespace quire {

inline constexpr uint64_t kFullWeight = uint64_t{1} << 40;

// The purpose of a random number: its counter's third word.
inline constexpr uint32_t kPurposeDraw = 0;

// Least weight that min_p keeps. REQUIRES: 0 < min_p <= 1.
inline uint64_t MinWeight(float min_p) {
  return static_cast<uint64_t>(static_cast<double>(min_p) * 0x1p40);
}

// Sum that top_p asks for: ceil(total * top_p), with top_p cut to 32 fractional bits; at least 1,
// so that one token stays. REQUIRES: 0 <= top_p < 1; total < 2^63.
inline uint64_t TopPTarget(float top_p, uint64_t total) {
  const uint64_t fraction = static_cast<uint64_t>(static_cast<double>(top_p) * 0x1p32);
  const unsigned __int128 product = static_cast<unsigned __int128>(total) * fraction;
  const uint64_t target = static_cast<uint64_t>((product + 0xffffffffu) >> 32);
  return std::max<uint64_t>(target, 1);
}

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_SAMPLING_RULE_H_
