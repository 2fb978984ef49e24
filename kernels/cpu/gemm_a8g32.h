#ifndef QUIRE_KERNELS_CPU_GEMM_A8G32_H_
#define QUIRE_KERNELS_CPU_GEMM_A8G32_H_

// Products of quantised weights in the mode a8g32 (gemm.h), for the instruction set that the
// including file, one per set, is compiled for.

#include <stdint.h>

#include "kernels/cpu/gemm_a8g32_dot.h"
#include "kernels/cpu/gemm_a8g32_unpack.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_kernels.h"
#include "kernels/cpu/row_tiles.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// Rows that are multiplied by one unpacked piece: their sums, and their part of the activations,
// stay in the L2 cache.
inline constexpr int kQuantBlockRows = 192;

// Where a piece meets rows: groups [first_group, first_group + num_groups) of k.
template <PackedFormat kFormat>
struct PieceArgs {
  const Piece<kFormat>& piece;
  QuantizedRows rows;  // at the block's first row
  int first_group;
  int num_groups;
  float* c;  // [rows, kBlockCols], at the panel's first column
};

// One group of R rows and C vectors of columns from `column` on: acc = fma(scale_a * scale_w, dot,
// acc) for each scale, then fma(min_w, scale_a * sum, acc).
template <PackedFormat kFormat, int R, int C>
QUIRE_INLINE void MultiplyGroup(const PieceArgs<kFormat>& args, int row, int column, int g,
                                F32x16 (&acc)[R][C]) {
  using P = Piece<kFormat>;
  constexpr int kQuads = kGroupQuads / P::kScales;
  constexpr int kOffsetBits = __builtin_ctz(P::kQuant.offset | 1 << 30);
  static_assert(P::kQuant.offset == 0 || P::kQuant.offset == 1 << kOffsetBits);
  const RowGroup* const groups =
      args.rows.groups + row * args.rows.group_stride + args.first_group + g;
  const int8_t* const a =
      args.rows.q + row * args.rows.q_stride + (args.first_group + g) * kGroupDepth;
#pragma GCC unroll 2
  for (int part = 0; part < P::kScales; ++part) {
    I32x16 dot[R][C] = {};
    DotQuads<P::kQuant.bits, kQuads, R, C>(
        {.w = args.piece.quads[g][0] + part * kQuads * kQuadBytes + column * 4,
         .plane_stride = kGroupQuads * kQuadBytes,
         .a = a + part * kQuads * 4,
         .lda = args.rows.q_stride},
        dot);
    if constexpr (P::kQuant.offset > 0) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const RowGroup& group = groups[r * args.rows.group_stride];
        const I32x16 sum = BroadcastInt(P::kScales == 1 ? group.sum
                                        : part == 0     ? group.sum_of_half
                                                        : group.sum - group.sum_of_half);
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c) dot[r][c] = dot[r][c] - ShiftLeft<kOffsetBits>(sum);
      }
    }
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) {
      const F32x16 scale_w = Load(args.piece.scale[g][part] + column + c * 16);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F32x16 scale = Broadcast(groups[r * args.rows.group_stride].scale) * scale_w;
        acc[r][c] = Fma(scale, ToFloat(dot[r][c]), acc[r][c]);
      }
    }
  }
  if constexpr (P::kQuant.has_min) {
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) {
      const F32x16 min = Load(args.piece.min[g] + column + c * 16);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const float sum = groups[r * args.rows.group_stride].scaled_sum;
        acc[r][c] = Fma(min, Broadcast(sum), acc[r][c]);
      }
    }
  }
}

template <PackedFormat kFormat, int R>
QUIRE_INLINE void MultiplyRows(const PieceArgs<kFormat>& args, int row) {
#pragma GCC unroll 1
  for (int column = 0; column < kPanelCols; column += 16 * kTileVectors) {
    float* const c = args.c + row * kBlockCols + column;
    F32x16 acc[R][kTileVectors];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kTileVectors; ++i) {
        acc[r][i] = args.first_group == 0 ? Zero16() : Load(c + r * kBlockCols + i * 16);
      }
    }
#pragma GCC unroll 1
    for (int g = 0; g < args.num_groups; ++g) {
      MultiplyGroup<kFormat, R, kTileVectors>(args, row, column, g, acc);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kTileVectors; ++i) Store(c + r * kBlockCols + i * 16, acc[r][i]);
    }
  }
}

// Not inlined: every epilogue uses the one of each format.
template <PackedFormat kFormat>
__attribute__((noinline)) void MultiplyPanel(const QuantizedRows& rows, int num_rows,
                                             const uint8_t* panel, int num_groups, float* c) {
  constexpr QuantFormat kQuant = QuantOf(kFormat);
  Piece<kFormat> piece;
  for (int group = 0; group < num_groups; group += kPieceGroups) {
    const int rest = num_groups - group;
    const int piece_groups = rest < kPieceGroups ? rest : kPieceGroups;
    UnpackPiece<kFormat>(panel, piece_groups, &piece);
    panel += kPieceGroups / kQuant.groups_per_span * kQuant.SpanBytes();
    const PieceArgs<kFormat> args = {piece, rows, group, piece_groups, c};
    ForTilesOf<kTileRows>(num_rows, [&]<int R>(int row) { MultiplyRows<kFormat, R>(args, row); });
  }
}

template <PackedFormat kFormat, typename Epilogue>
void QuantizedGemm(const GemmArgs& args, int row_begin, int row_end, int unit_begin, int unit_end) {
  constexpr int kUnitPanels = Epilogue::kUnitPanels;
  const int64_t panel_bytes = PanelBytes(kFormat, args.k);
  alignas(64) float c[kQuantBlockRows * kBlockCols];
  for (int row = row_begin; row < row_end; row += kQuantBlockRows) {
    const int num_rows = row_end - row < kQuantBlockRows ? row_end - row : kQuantBlockRows;
    QuantizedRows rows = args.quantized;
    rows.q += row * rows.q_stride;
    rows.groups += row * rows.group_stride;
    for (int unit = unit_begin; unit < unit_end; ++unit) {
      const int panel = unit * kUnitPanels;
      for (int i = 0; i < kUnitPanels; ++i) {
        MultiplyPanel<kFormat>(rows, num_rows, args.w + (panel + i) * panel_bytes,
                               NumGroups(args.k), c + i * kPanelCols);
      }
      for (int r = 0; r < num_rows; ++r) {
        FinishRow(Epilogue(), args, row + r, panel, kUnitPanels, c + r * kBlockCols);
      }
    }
  }
}

template <PackedFormat kFormat>
inline constexpr GemmKernels kQuantizedKernels = {QuantizedGemm<kFormat, StoreEpilogue>,
                                                  QuantizedGemm<kFormat, AddEpilogue>,
                                                  QuantizedGemm<kFormat, SiluMulEpilogue>};

// One definition for each instruction set: one source of each includes this file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const QuantizedGemmKernels kQuantizedGemmKernels = {{
    {},  // bf16
    kQuantizedKernels<PackedFormat::kU4>,
    kQuantizedKernels<PackedFormat::kU4Min>,
    kQuantizedKernels<PackedFormat::kU5>,
    kQuantizedKernels<PackedFormat::kU5Min>,
    kQuantizedKernels<PackedFormat::kU8>,
    kQuantizedKernels<PackedFormat::kQ4K>,
    kQuantizedKernels<PackedFormat::kQ5K>,
    kQuantizedKernels<PackedFormat::kQ6K>,
}};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_A8G32_H_
