#ifndef QUIRE_KERNELS_CPU_REFERENCE_UNPACK_H_
#define QUIRE_KERNELS_CPU_REFERENCE_UNPACK_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace quire::reference {

// What fma(q, scale, min) is made of. The scales and mins of the K formats are exact products.
//
//   Q4_0, Q5_0   4 or 5 bits less 8 or 16; fp16 of the block of 32; +0
//   Q4_1, Q5_1   4 or 5 bits; fp16 of the block of 32; fp16 of the block of 32
//   Q8_0         int8; fp16 of the block of 32; +0
//   Q4_K, Q5_K   4 or 5 bits; fp16 d times 6 bits, of 32; -(fp16 dmin times 6 bits), of 32
//   Q6_K         6 bits less 32; fp16 d times an int8, of 16; +0
//   F8_E4M3      the number itself; fp32 of the tensor, the row, or a block of rows and columns; +0
//
// gguf-py and llama.cpp round the product and the sum where this rounds once: the same without a
// min, within a unit in the last place with one.

struct Quant {
  int q = 0;
  float scale = 0;
  float min = 0;  // to be added
};

// Element `i` of the block at `block`. REQUIRES: a quantised type.
Quant QuantOf(DType dtype, const uint8_t* block, int i);

// Row `row` of a weight in fp32: F32 as it is, F16 and BF16 widened, quantised elements
// fma(q, scale, min) with q counted from the format's zero and min +0 where the format has none; of
// an F8 weight q is the number itself.
// out: [view.cols].
void Dequantize(const WeightView& view, int64_t row, float* out);

// The same as matrices hold it: rne_bf16 of each. out: bf16 [view.cols].
void UnpackRow(const WeightView& view, int64_t row, uint16_t* out);

}  // namespace quire::reference

#endif  // QUIRE_KERNELS_CPU_REFERENCE_UNPACK_H_
