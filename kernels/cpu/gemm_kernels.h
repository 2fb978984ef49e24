#ifndef QUIRE_KERNELS_CPU_GEMM_KERNELS_H_
#define QUIRE_KERNELS_CPU_GEMM_KERNELS_H_

#include <stdint.h>

#include "kernels/cpu/isa_target.h"
#include "kernels/cpu/packed_format.h"
#include "kernels/cpu/quantized_rows.h"

// What gemm.h and the objects of each instruction set share: the signatures of the kernels.

namespace quire {

// One product. `quantized` is read where quantised weights take int8, else `a`. `bias` and
// `up_bias` may be null.
struct GemmArgs {
  const uint16_t* a = nullptr;  // bf16 [rows, lda]; columns [k, PaddedK(k)) are zero
  int64_t lda = 0;              // even
  QuantizedRows quantized = {};
  const uint8_t* w = nullptr;  // panels
  int k = 0;
  int n = 0;                       // columns of the output
  const float* bias = nullptr;     // [n]
  const float* up_bias = nullptr;  // [n], of silu_mul
  float* out = nullptr;            // [rows, ldo]
  uint16_t* out_bf16 = nullptr;    // bf16 [rows, ldo], of silu_mul: if not null, instead of out
  int64_t ldo = 0;
};

// Computes rows [row_begin, row_end) of columns [32 * unit_begin, min(n, 32 * unit_end)). Calls
// over disjoint ranges are independent: any thread. No allocation.
using GemmFn = void (*)(const GemmArgs& args, int row_begin, int row_end, int unit_begin,
                        int unit_end);

struct GemmKernels {
  // out = acc, or acc + bias. A unit is a panel.
  GemmFn store;
  // out = out + acc, or out + (acc + bias). A unit is a panel.
  GemmFn add;
  // out = silu(gate) * up, or out_bf16 = rne_bf16 of that, where gate = acc or acc + bias, up = acc
  // or acc + up_bias, silu(g) = g / (1 + exp(-g)). `w` has a gate panel and an up panel side by
  // side: panel 2i holds columns [32i, 32i + 32) of gate, panel 2i + 1 those of up; a unit is such
  // a pair. Where n is odd, column n of out_bf16 is written too, with zero, so that it is an `a`.
  GemmFn silu_mul;
};

// One set for each format of weights; empty where a mode has none.
struct GemmKernelsByFormat {
  GemmKernels of[kNumPackedFormats];  // by PackedFormat
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_KERNELS_H_
