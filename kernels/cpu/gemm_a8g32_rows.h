#ifndef QUIRE_KERNELS_CPU_GEMM_A8G32_ROWS_H_
#define QUIRE_KERNELS_CPU_GEMM_A8G32_ROWS_H_

// Products of quantised weights in the mode a8g32 (gemm.h), whatever multiplies the rows of a
// panel: vectors (MultiplyPanel) or tiles (gemm_a8g32_amx.h). For the instruction set that the
// including file is compiled for.

#include <stdint.h>

#include "kernels/cpu/gemm_a8g32_dot.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_kernels.h"
#include "kernels/cpu/row_tiles.h"
#include "kernels/cpu/unrolled.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/weight_groups.h"

namespace quire {
inline namespace QUIRE_ISA {

// Groups of k that all rows are multiplied by before the next ones: their weights stay in the L1
// cache. Whole spans.
inline constexpr int kPieceGroups = 8;
// Rows that are multiplied by one piece: their sums, and their part of the activations, stay in the
// L2 cache.
inline constexpr int kQuantBlockRows = 192;

// Groups [first_group, first_group + num_groups) of k of one panel.
template <PackedFormat kFormat>
struct PieceArgs {
  const uint8_t* groups;
  const SpanScales<kFormat>& scales;
  QuantizedRows rows;  // at the block's first row
  int first_group;
  int num_groups;
  float* c;  // [rows, kBlockCols], at the panel's first column
};

// One group of R rows and C vectors of columns: acc = fma(scale_a * scale_w, dot, acc) for each
// scale, then fma(min_w, scale_a * sum, acc). rows: at the first row and the group.
template <PackedFormat kFormat, int R, int C>
QUIRE_INLINE void MultiplyGroup(const GroupColumns<kFormat>& group, const QuantizedRows& rows,
                                F32x16 (&acc)[R][C]) {
  constexpr int kScales = GroupColumns<kFormat>::kScales;
  constexpr QuantFormat kQuant = QuantOf(kFormat);
  constexpr int kQuads = kGroupQuads / kScales;
  constexpr int kOffset = kSigned<kQuant.bits> ? 0 : kQuant.offset;
  constexpr int kOffsetBits = __builtin_ctz(kOffset | 1 << 30);
  static_assert(kOffset == 0 || kOffset == 1 << kOffsetBits);
  Unrolled<kScales>([&]<int kPart>() __attribute__((always_inline)) {
    I32x16 dot[R][C] = {};
    DotQuads<kQuant.bits, kQuads, R, C>(
        {.a = rows.q + kPart * kQuads * 4, .lda = rows.q_stride},
        [&]<int kQuad>(int c) __attribute__((always_inline)) {
          return group.template Quads<kPart * kQuads + kQuad>(c);
        },
        dot);
    if constexpr (kOffset > 0) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const RowGroup& of_row = rows.groups[r * rows.group_stride];
        const I32x16 sum = BroadcastInt(kScales == 1 ? of_row.sum
                                        : kPart == 0 ? of_row.sum_of_half
                                                     : of_row.sum - of_row.sum_of_half);
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c) dot[r][c] = dot[r][c] - ShiftLeft<kOffsetBits>(sum);
      }
    }
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) {
      const F32x16 scale_w = group.Scale(kPart, c);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F32x16 scale = Broadcast(rows.groups[r * rows.group_stride].scale) * scale_w;
        acc[r][c] = Fma(scale, ToFloat(dot[r][c]), acc[r][c]);
      }
    }
  });
  if constexpr (kQuant.has_min) {
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) {
      const F32x16 min = group.Min(c);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const float sum = rows.groups[r * rows.group_stride].scaled_sum;
        acc[r][c] = Fma(min, Broadcast(sum), acc[r][c]);
      }
    }
  }
}

template <PackedFormat kFormat, int R>
QUIRE_INLINE void MultiplyRows(const PieceArgs<kFormat>& args, int row) {
  constexpr QuantFormat kQuant = QuantOf(kFormat);
  constexpr int kGroupStride = kQuant.SpanBytes() / kQuant.groups_per_span;
  constexpr int kPasses = kPanelCols / (16 * kTileVectors);
#pragma GCC unroll 1
  for (int pass = 0; pass < kPasses; ++pass) {
    const int column = pass * 16 * kTileVectors;
    float* const c = args.c + row * kBlockCols + column;
    F32x16 acc[R][kTileVectors];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kTileVectors; ++i) {
        acc[r][i] = args.first_group == 0 ? Zero16() : Load(c + r * kBlockCols + i * 16);
      }
    }
    QuantizedRows rows = args.rows;
    rows.q += row * rows.q_stride + args.first_group * kGroupDepth;
    rows.groups += row * rows.group_stride + args.first_group;
#pragma GCC unroll 1
    for (int g = 0; g < args.num_groups; ++g) {
      // The first tile brings the weights, each pass its share of the lines.
      if (row == 0)
        FetchAhead<kPasses, kIntoL2>(args.groups + g * kGroupStride + pass * 64, kGroupStride);
      MultiplyGroup<kFormat>({.group = args.groups + g * kQuant.GroupBytes() +
                                       (kQuant.groups_per_span == 1 ? g * kQuant.ScaleBytes() : 0),
                              .scales = args.scales,
                              .g = g,
                              .column = column},
                             rows, acc);
      rows.q += kGroupDepth;
      ++rows.groups;
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kTileVectors; ++i) Store(c + r * kBlockCols + i * 16, acc[r][i]);
    }
  }
}

// c[num_rows, kBlockCols] = the products of the rows with the 32 columns of a panel. Not inlined:
// every epilogue uses the one of each format.
template <PackedFormat kFormat>
__attribute__((noinline)) void MultiplyPanel(const QuantizedRows& rows, int num_rows,
                                             const uint8_t* panel, int num_groups, float* c) {
  constexpr QuantFormat kQuant = QuantOf(kFormat);
  constexpr int kSpans = kPieceGroups / kQuant.groups_per_span;
  SpanScales<kFormat> scales;
  for (int group = 0; group < num_groups; group += kPieceGroups) {
    const int rest = num_groups - group;
    UnpackScales<kFormat>(panel + kQuant.groups_per_span * kQuant.GroupBytes(), &scales);
    const PieceArgs<kFormat> args = {.groups = panel,
                                     .scales = scales,
                                     .rows = rows,
                                     .first_group = group,
                                     .num_groups = rest < kPieceGroups ? rest : kPieceGroups,
                                     .c = c};
    ForTilesOf<kTileRows>(num_rows, [&]<int R>(int row) { MultiplyRows<kFormat, R>(args, row); });
    panel += kSpans * kQuant.SpanBytes();
  }
}

// A GemmFn. `Multiplier` sets c to the products of rows with a panel: Multiply<kFormat>(...), as
// MultiplyPanel. Finish is called at the end; not a destructor, which would bring the tables of
// exceptions in.
template <typename Multiplier, PackedFormat kFormat, typename Epilogue>
void QuantizedGemm(const GemmArgs& args, int row_begin, int row_end, int unit_begin, int unit_end) {
  constexpr int kUnitPanels = Epilogue::kUnitPanels;
  const int64_t panel_bytes = PanelBytes(kFormat, args.k);
  Multiplier multiplier;
  alignas(64) float c[kQuantBlockRows * kBlockCols];
  for (int row = row_begin; row < row_end; row += kQuantBlockRows) {
    const int num_rows = row_end - row < kQuantBlockRows ? row_end - row : kQuantBlockRows;
    QuantizedRows rows = args.quantized;
    rows.q += row * rows.q_stride;
    rows.groups += row * rows.group_stride;
    for (int unit = unit_begin; unit < unit_end; ++unit) {
      const int panel = unit * kUnitPanels;
      for (int i = 0; i < kUnitPanels; ++i) {
        multiplier.template Multiply<kFormat>(rows, num_rows, args.w + (panel + i) * panel_bytes,
                                              NumGroups(args.k), c + i * kPanelCols);
      }
      for (int r = 0; r < num_rows; ++r) {
        FinishRow(Epilogue(), args, row + r, panel, kUnitPanels, c + r * kBlockCols);
      }
    }
  }
  multiplier.Finish();
}

template <typename Multiplier>
struct GemmByGroups {
  template <PackedFormat kFormat, typename Epilogue>
  static constexpr GemmFn kRun = QuantizedGemm<Multiplier, kFormat, Epilogue>;
};

template <typename Multiplier>
inline constexpr GemmKernelsByFormat kQuantizedKernelsByFormat =
    KernelsByFormat<GemmByGroups<Multiplier>>(/*bf16=*/{});

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_A8G32_ROWS_H_
