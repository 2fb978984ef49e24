#ifndef QUIRE_KERNELS_CPU_WEIGHT_PACKING_H_
#define QUIRE_KERNELS_CPU_WEIGHT_PACKING_H_

#include <cstdint>

#include "kernels/cpu/packed_format.h"
#include "kernels/dtype.h"

// Rows of weights turned into panels (packed_format.h), and read back. A panel is written whole,
// its padding included; panels are independent of each other: any thread.

namespace quire {

// bf16 rows [num_rows, k], row i starting at rows + i * row_stride. REQUIRES: num_rows in [1, 32].
void PackBf16Panel(const uint16_t* rows, int64_t row_stride, int num_rows, int k, uint8_t* panel);

// Rows as a file of type `dtype` holds them, of any alignment. REQUIRES: num_rows in [1, 32]; dtype
// is quantised, k a multiple of its block.
void PackQuantizedPanel(DType dtype, const uint8_t* const* rows, int num_rows, int k,
                        uint8_t* panel);

// Row n of a packed matrix of depth k in fp32: bf16 widened, quantised elements
// fma(u - offset, scale, min), with min +0 where the format has none. out: [k].
void UnpackPackedRow(PackedFormat format, const uint8_t* panels, int n, int k, float* out);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_WEIGHT_PACKING_H_
