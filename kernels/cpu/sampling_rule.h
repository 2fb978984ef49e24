#ifndef QUIRE_KERNELS_CPU_SAMPLING_RULE_H_
#define QUIRE_KERNELS_CPU_SAMPLING_RULE_H_

#include <algorithm>
#include <cstdint>

#include "kernels/sample_row.h"

// What the definition of sampling and the fast code share: penalties, and the thresholds of the
// filters as integers (kernels/sampling.md). A weight is floor(exp(score - max) * 2^40),
// so the most likely token weighs kFullWeight.

namespace quire {

inline constexpr uint64_t kFullWeight = uint64_t{1} << 40;

// The logit of a token that is counted, after penalties.
inline float Penalized(float logit, const TokenCount& count, const LogitEdits& edits) {
  const bool generated = count.num_generated > 0;
  if (count.in_prompt || generated) {
    const float r = edits.repetition_penalty;
    logit = logit > 0 ? logit / r : logit * r;
  }
  logit -= edits.frequency_penalty * static_cast<float>(count.num_generated);
  return generated ? logit - edits.presence_penalty : logit;
}

// The purpose of a random number: its counter's third word. XTC draws one number a row, with token
// id 0.
inline constexpr uint32_t kPurposeDraw = 0;
inline constexpr uint32_t kPurposeXtc = 1;

// Least weight that min_p keeps. REQUIRES: 0 < min_p <= 1.
inline uint64_t MinWeight(float min_p) {
  return static_cast<uint64_t>(static_cast<double>(min_p) * 0x1p40);
}

// The part of a sum of weights that top_p, typical_p or xtc_threshold means: ceil(total *
// fraction), the fraction cut to 32 bits after the point; at least 1, so that one token stays.
// REQUIRES: 0 <= fraction <= 1; total < 2^63.
inline uint64_t ShareOf(uint64_t total, float fraction) {
  const uint64_t bits = static_cast<uint64_t>(static_cast<double>(fraction) * 0x1p32);
  const unsigned __int128 product = static_cast<unsigned __int128>(total) * bits;
  const uint64_t share = static_cast<uint64_t>((product + 0xffffffffu) >> 32);
  return std::max<uint64_t>(share, 1);
}

// Whether XTC happens in a row whose random word this is: with `probability`.
inline bool XtcHappens(uint32_t word, float probability) {
  return static_cast<float>(word >> 8) * 0x1p-24f < probability;
}

// The weighted mean of score - max that typical_p measures from. `depth` is the sum of
// floor(exp(d) * -d * 2^40), `total` that of the weights.
inline float TypicalCenter(uint64_t depth, uint64_t total) {
  return 0.0f - static_cast<float>(static_cast<double>(depth) / static_cast<double>(total));
}

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_SAMPLING_RULE_H_
