#ifndef QUIRE_KERNELS_CPU_REFERENCE_SAMPLING_H_
#define QUIRE_KERNELS_CPU_REFERENCE_SAMPLING_H_

#include <array>
#include <cstdint>

#include "kernels/backend.h"

// The definition of sampling (kernels/README.md), by sorting.

namespace quire::reference {

// Philox4x32-10.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The standard Gumbel variable of two random words.
float Gumbel(uint32_t first, uint32_t second);

// floor(exp(d) * 2^40) for d <= 0; 0 where d is a NaN.
uint64_t WeightOf(float d);

int32_t ArgMax(const float* logits, int vocab_size);

int32_t SampleToken(const float* logits, int vocab_size, const SampleRow& row);

}  // namespace quire::reference

#endif  // QUIRE_KERNELS_CPU_REFERENCE_SAMPLING_H_
