#ifndef QUIRE_KERNELS_CPU_GEMM_H_
#define QUIRE_KERNELS_CPU_GEMM_H_

#include <cstdint>

#include "kernels/cpu/isa.h"

// Matrix products of the mode `bf16x2`: out[m, n] = a[m, k] * w[n, k]^T, bf16 operands, one fp32
// accumulator per element that starts at +0 and takes per pair of k, ascending, first
// fma(a_odd, w_odd, acc), then fma(a_even, w_even, acc). Vector lanes lie over n only and k is
// never split, so an element has the same bits whatever the number of rows, the chunking, the
// thread and the instruction set. reference/gemm.h is the definition. FTZ and DAZ must be set in
// the calling thread (ThreadPool does it).
//
// Weights lie in panels of 32 columns (rows of the file's matrix):
//   bf16 [ceil(n / 32)][k / 2][32][2], k rounded up to even, padding zero
// so one panel is one stream of k * 64 bytes.

namespace quire {

inline constexpr int kPanelCols = 32;

constexpr int PaddedK(int k) { return k + (k & 1); }
constexpr int NumPanels(int n) { return (n + kPanelCols - 1) / kPanelCols; }
// Elements of one panel, and of a whole packed matrix. Start it at a multiple of 64 bytes.
constexpr int64_t PanelElems(int k) { return static_cast<int64_t>(PaddedK(k)) * kPanelCols; }
constexpr int64_t PackedElems(int n, int k) { return NumPanels(n) * PanelElems(k); }

// Elements from one row of an `a` operand to the next: k rounded up so that rows start at
// multiples of 64 bytes and do not all fall into the same cache sets. Any even stride is correct.
constexpr int64_t ActivationStride(int k) {
  const int64_t lines = (k + 31) / 32;
  return (lines | 1) * 32;
}

// Writes one whole panel: rows [num_rows, k], row i starting at rows + i * row_stride, num_rows in
// [1, 32]; columns past num_rows and an odd k are padded with zeros. Panels are independent of each
// other: any thread.
void PackPanel(const uint16_t* rows, int64_t row_stride, int num_rows, int k, uint16_t* panel);

// Reads row `n` of the matrix back: out[k].
void UnpackPanelRow(const uint16_t* panels, int n, int k, uint16_t* out);

// One product. `bias`, `up_bias` may be null.
struct GemmArgs {
  const uint16_t* a = nullptr;  // bf16 [rows, lda]; columns [k, PaddedK(k)) are zero
  int64_t lda = 0;              // even
  const uint16_t* w = nullptr;  // panels
  int k = 0;
  int n = 0;                      // columns of the output
  const float* bias = nullptr;    // [n]
  const float* up_bias = nullptr;  // [n], silu_mul only
  float* out = nullptr;            // [rows, ldo], of store and add
  uint16_t* out_bf16 = nullptr;    // bf16 [rows, ldo], of silu_mul
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
  // out_bf16 = rne_bf16(silu(gate) * up), where gate = acc or acc + bias, up = acc or
  // acc + up_bias, silu(g) = g / (1 + exp(-g)). `w` has a gate panel and an up panel side by side:
  // panel 2i holds columns [32i, 32i + 32) of gate, panel 2i + 1 those of up; a unit is such a
  // pair. Where n is odd, column n is written too, with zero, so that the output is an `a`.
  GemmFn silu_mul;
};

// REQUIRES: the machine has `isa`.
const GemmKernels& GemmKernelsFor(Isa isa);

// How a product is cut into chunks for a thread pool. Chunk c covers the rows and units of
// RowsOf(c), UnitsOf(c); chunks of one range of units are neighbours, so that its weights come
// from memory once.
struct GemmChunks {
  int rows = 0;
  int units = 0;
  int rows_per_chunk = 0;
  int units_per_chunk = 0;
  int row_chunks = 0;
  int num_chunks = 0;

  struct Range {
    int begin;
    int end;
  };
  Range RowsOf(int chunk) const {
    const int begin = chunk % row_chunks * rows_per_chunk;
    return {begin, begin + rows_per_chunk < rows ? begin + rows_per_chunk : rows};
  }
  Range UnitsOf(int chunk) const {
    const int begin = chunk / row_chunks * units_per_chunk;
    return {begin, begin + units_per_chunk < units ? begin + units_per_chunk : units};
  }
};

// Chunks for rows x units (panels, or gate-up pairs with panels_per_unit = 2) of depth k.
GemmChunks ChunkGemm(int rows, int units, int panels_per_unit, int k, int num_threads);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_H_
