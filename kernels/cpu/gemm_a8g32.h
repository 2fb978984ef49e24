#ifndef QUIRE_KERNELS_CPU_GEMM_A8G32_H_
#define QUIRE_KERNELS_CPU_GEMM_A8G32_H_

// The products of mode `a8g32` (gemm.h) by vectors, for the instruction set that the including
// file, one per set, is compiled for.

#include <stdint.h>

#include "kernels/cpu/gemm_a8g32_rows.h"
#include "kernels/cpu/gemm_kernels.h"

namespace quire {
inline namespace QUIRE_ISA {

struct VectorRows {
  template <PackedFormat kFormat>
  QUIRE_INLINE void Multiply(const QuantizedRows& rows, int num_rows, const uint8_t* panel,
                             int num_groups, float* c) {
    MultiplyPanel<kFormat>(rows, num_rows, panel, num_groups, c);
  }
  QUIRE_INLINE void Finish() {}
};

// One definition for each instruction set: one source of each includes this file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const GemmKernelsByFormat kQuantizedGemmKernels = kQuantizedKernelsByFormat<VectorRows>;

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_A8G32_H_
