#ifndef QUIRE_KERNELS_CPU_WEIGHT_QUANTIZATION_H_
#define QUIRE_KERNELS_CPU_WEIGHT_QUANTIZATION_H_

#include <cstdint>

#include "kernels/dtype.h"

namespace quire {

// Rounds a row of weights to a quantised type of a file, by groups of 32, to the nearest multiple
// of the group's fp16 scale:
//   Q8_0  scale = max |x| / 127
//   Q4_0  scale = x' / -8, x' the element of largest magnitude (the first of equals): it is met
//         exactly, and its sign has the larger half of the range
// A scale beyond fp16 becomes its largest number; a group of zeros has scale 0, one that holds a
// NaN or an infinity has scale NaN, so that it is noticed as before. x: [cols]; out: cols / 32
// blocks. REQUIRES: dtype is Q8_0 or Q4_0; cols % 32 == 0.
void QuantizeWeightRow(DType dtype, const float* x, int64_t cols, uint8_t* out);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_WEIGHT_QUANTIZATION_H_
