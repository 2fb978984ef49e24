#ifndef QUIRE_KERNELS_CPU_LOGPROBS_H_
#define QUIRE_KERNELS_CPU_LOGPROBS_H_

#include <cstdint>

#include "kernels/cpu/ops.h"
#include "kernels/sample_row.h"

namespace quire {

// Log-probabilities of one row of logits [vocab_size]: of `token_id` (which may be kNoToken) and of
// the num_top likeliest tokens. reference/sampling.h has the definition as code. O(vocab_size).
// FTZ and DAZ must be set. REQUIRES: 0 <= num_top <= kMaxTopLogprobs, num_top <= vocab_size.
RowLogprobs LogprobsOf(const CpuOps& ops, const float* logits, int vocab_size, int32_t token_id,
                       int32_t num_top);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_LOGPROBS_H_
