#ifndef QUIRE_KERNELS_CPU_REFERENCE_SAMPLING_H_
#define QUIRE_KERNELS_CPU_REFERENCE_SAMPLING_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "kernels/sample_row.h"

// The definition of sampling (kernels/sampling.md), by sorting.

namespace quire::reference {

// Philox4x32-10.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The standard Gumbel variable of two random words.
float Gumbel(uint32_t first, uint32_t second);

// floor(exp(d) * 2^40) for d <= 0; 0 where d is a NaN.
uint64_t WeightOf(float d);

// The largest logit's id, the lowest among equals; kNoToken where none is above -infinity.
int32_t ArgMax(absl::Span<const float> logits);

// The logits after `edits`.
std::vector<float> EditLogits(absl::Span<const float> logits, const LogitEdits& edits);

struct Candidate {
  int32_t id = 0;
  float score = 0;
  float depth = 0;  // score - max, so at most 0
  uint64_t weight = 0;
};

// The tokens that the filters of a row leave, in the order falling score, then rising id. `logits`
// are edited. Empty where no score is finite and the largest, so that the choice is the argmax.
// REQUIRES: row.temperature > 0.
std::vector<Candidate> KeptTokens(absl::Span<const float> logits, const SampleRow& row);

int32_t SampleToken(absl::Span<const float> logits, const SampleRow& row);

// The log-probabilities of `token_id` and of the num_top likeliest tokens. `token_id` may be
// kNoToken. REQUIRES: num_top <= kMaxTopLogprobs.
RowLogprobs LogprobsOf(absl::Span<const float> logits, int32_t token_id, int32_t num_top);

}  // namespace quire::reference

#endif  // QUIRE_KERNELS_CPU_REFERENCE_SAMPLING_H_
