#ifndef QUIRE_KERNELS_CPU_GEMM_H_
#define QUIRE_KERNELS_CPU_GEMM_H_

#include <cstdint>

#include "kernels/cpu/gemm_kernels.h"
#include "kernels/cpu/isa.h"
#include "kernels/numerics_mode.h"

// Matrix products, out[m, n] = sum over k of a[m, k] * w[n, k], by the mode and the format of w:
//
// bf16 in modes `bf16x2` and `a8g32`: bf16 operands, one fp32 accumulator per element that starts
// at +0 and takes per pair of k, ascending, first fma(a_odd, w_odd, acc), then fma(a_even, w_even,
// acc).
//
// bf16 in modes `bf16x32` and `a8g32x32`, and quantised in `bf16x32`, where an element is first
// rounded, rne_bf16(fma(q, scale, min)): bf16 operands; per block of 32 of k, ascending, from +0:
// acc = acc + (even + odd), where even sums the products of even k, each by one fma, ascending,
// from +0, and odd those of odd k. The last block is completed by zero products.
//
// quantised in modes `a8g32` and `a8g32x32`: `a` is quantised by groups of 32 (quantized_rows.h);
// integer dot products, exact; per group, ascending, from +0: acc = fma(scale_a * scale_w,
// float(dot), acc) for each scale of w in the group, and where the format has mins then acc =
// fma(min_w, scale_a * float(sum of q), acc).
//
// Vector lanes lie over n only and accumulators are never split, so an element has the same bits
// whatever the number of rows, the chunking, the thread and the instruction set. reference/gemm.h
// is the definition. FTZ and DAZ must be set in the calling thread (ThreadPool does it).

namespace quire {

// Kernels for weights of a format. REQUIRES: the machine runs `isa`; in mode bf16x2 weights are
// bf16.
const GemmKernels& GemmKernelsFor(CpuIsa isa, NumericsMode mode, PackedFormat format);

// Elements from one row of an `a` operand to the next: k rounded up so that rows start at
// multiples of 64 bytes and do not all fall into the same cache sets. Any even stride is correct.
constexpr int64_t ActivationStride(int k) {
  const int64_t lines = (k + 31) / 32;
  return (lines | 1) * 32;
}

// How a product is cut into chunks for a thread pool. Chunk c computes rows RowsOf(c) of units
// UnitsOf(c). Chunks over the same units are neighbours, so that weights come from memory once.
struct GemmChunks {
  struct Range {
    int begin;
    int end;
  };
  Range RowsOf(int chunk) const { return Cut(chunk % num_row_chunks, rows_per_chunk, rows); }
  Range UnitsOf(int chunk) const { return Cut(chunk / num_row_chunks, units_per_chunk, units); }

  int rows = 0;
  int units = 0;
  int rows_per_chunk = 0;
  int units_per_chunk = 0;
  int num_row_chunks = 0;
  int num_chunks = 0;

 private:
  static Range Cut(int i, int step, int total) {
    return {i * step, i * step + step < total ? i * step + step : total};
  }
};

// The most rows of a chunk: the block of rows that its kernels go through a panel with.
int RowsPerChunk(NumericsMode mode, PackedFormat format);

// Chunks for `rows` x `units` of depth k; a unit is one panel (store, add) or a pair (silu_mul).
GemmChunks ChunkGemm(int rows, int units, int panels_per_unit, int k, int rows_per_chunk,
                     int num_threads);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_H_
