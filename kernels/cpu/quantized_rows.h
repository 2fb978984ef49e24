#ifndef QUIRE_KERNELS_CPU_QUANTIZED_ROWS_H_
#define QUIRE_KERNELS_CPU_QUANTIZED_ROWS_H_

#include <stdint.h>

#include "kernels/cpu/packed_format.h"

namespace quire {

// Of one group of 32 activations x, quantised to q: what products need beside q.
struct RowGroup {
  float scale;          // amax / 127
  float scaled_sum;     // scale * float(sum)
  int32_t sum;          // of q
  int32_t sum_of_half;  // of the first 16 q
};

// Rows of activations of the mode a8g32: q = clamp(rne(x * (127 / amax)), -127, 127) by group of
// 32; where amax or 127 / amax is not finite (NaN, infinities, zeros, tiny values) all q are 0.
// reference/quantize.h is the definition. Not owned.
struct QuantizedRows {
  int8_t* q = nullptr;         // [rows, q_stride]; zeros from k on to a multiple of 32
  RowGroup* groups = nullptr;  // [rows, group_stride]
  int64_t q_stride = 0;        // multiple of 32
  int64_t group_stride = 0;    // q_stride / 32 at least
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_QUANTIZED_ROWS_H_
