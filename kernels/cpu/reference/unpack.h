#ifndef QUIRE_KERNELS_CPU_REFERENCE_UNPACK_H_
#define QUIRE_KERNELS_CPU_REFERENCE_UNPACK_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace quire::reference {

// Row `row` of a weight in fp32: F32 as it is, F16 and BF16 widened, quantised elements
// fma(q, scale, min) with q counted from the format's zero and min +0 where the format has none.
// out: [view.cols].
void Dequantize(const WeightView& view, int64_t row, float* out);

// The same as matrices hold it: rne_bf16 of each. out: bf16 [view.cols].
void UnpackRow(const WeightView& view, int64_t row, uint16_t* out);

}  // namespace quire::reference

#endif  // QUIRE_KERNELS_CPU_REFERENCE_UNPACK_H_
