#ifndef QUIRE_TESTS_KERNELS_PLAIN_SAMPLER_H_
#define QUIRE_TESTS_KERNELS_PLAIN_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/sample_row.h"

namespace quire {

// The sampler as a textbook has it: probabilities in long double, filters by std::sort and running
// sums, each written from the formulas of its inventors. It shares no code with kernels/ but the
// random numbers, and guards the definition there against its own mistakes.
//
// None where a decision is so close that rounding may turn it.
std::optional<int32_t> PlainSampledToken(const std::vector<float>& logits, const SampleRow& row);

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_PLAIN_SAMPLER_H_
