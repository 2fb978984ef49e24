#ifndef QUIRE_KERNELS_CPU_GEMM_A8G32_AMX_H_
#define QUIRE_KERNELS_CPU_GEMM_A8G32_AMX_H_

// The products of mode `a8g32` (gemm.h) by AMX where rows fill a tile, else by vectors. A tile
// multiplication takes the elements of k that share a scale; its integers go through memory to the
// vectors that scale and add them up.

#include <stdint.h>

#include "kernels/cpu/amx_products.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/gemm_a8g32_rows.h"
#include "kernels/cpu/gemm_kernels.h"
#include "kernels/cpu/unrolled.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/weight_groups.h"

namespace quire {
inline namespace QUIRE_ISA {

// Rows from which on a tile is faster than vectors.
inline constexpr int kLeastTileRows = 14;
// Groups of k whose weights are unpacked at a time: they stay in the L1 cache, beside the rows of a
// tile. Whole spans.
inline constexpr int kTileGroups = 8;

// Groups of a panel as tiles read them: signed bytes u - offset, by quads.
template <PackedFormat kFormat>
struct UnpackedGroups {
  static constexpr QuantFormat kQuant = QuantOf(kFormat);
  static constexpr int kScales = GroupColumns<kFormat>::kScales;

  alignas(64) int8_t quads[kTileGroups][kGroupQuads][kQuadBytes];
  alignas(64) float scale[kTileGroups][kScales][kPanelCols];
  alignas(64) float min[kQuant.has_min ? kTileGroups : 1][kPanelCols];

  // Bytes keep to themselves: those of u + 128 are not below the offset.
  QUIRE_INLINE static I32x16 WithoutOffset(I32x16 u) {
    constexpr int32_t kEach = 0x01010101;
    const I32x16 sign_bits = BroadcastInt(static_cast<int32_t>(0x80808080u));
    if constexpr (kQuant.offset == 0) return u;
    if constexpr (kQuant.offset == 128) return u ^ sign_bits;
    return ((u ^ sign_bits) - BroadcastInt(kQuant.offset % 128 * kEach)) ^ sign_bits;
  }

  // Groups [0, num_groups) from `panel` on, which is at the start of a span.
  __attribute__((noinline)) void Unpack(const uint8_t* panel, int num_groups) {
    constexpr int kStride = kQuant.SpanBytes() / kQuant.groups_per_span;
    SpanScales<kFormat> span_scales;
    for (int group = 0; group < num_groups; ++group) {
      const int g = group % kQuant.groups_per_span;
      const uint8_t* const span = panel + group / kQuant.groups_per_span * kQuant.SpanBytes();
      if (g == 0) {
        UnpackScales<kFormat>(span + kQuant.groups_per_span * kQuant.GroupBytes(), &span_scales);
      }
      FetchAhead<1, kIntoL2>(span + g * kStride, kStride);
      for (int column = 0; column < kPanelCols; column += 16) {
        const GroupColumns<kFormat> columns = {.group = span + g * kQuant.GroupBytes(),
                                               .scales = span_scales,
                                               .g = g,
                                               .column = column};
        Unrolled<kGroupQuads>([&]<int kQuad>() __attribute__((always_inline)) {
          StoreBits(quads[group][kQuad] + 4 * column,
                    WithoutOffset(columns.template Quads<kQuad>(0)));
        });
        for (int part = 0; part < kScales; ++part) {
          Store(scale[group][part] + column, columns.Scale(part, 0));
        }
        if constexpr (kQuant.has_min) Store(min[group] + column, columns.Min(0));
      }
    }
  }
};

class TileRows {
 public:
  template <PackedFormat kFormat>
  QUIRE_INLINE void Multiply(const QuantizedRows& rows, int num_rows, const uint8_t* panel,
                             int num_groups, float* c) {
    if (num_rows >= kLeastTileRows) {
      MultiplyByTiles<kFormat>(rows, num_rows, panel, num_groups, c);
    } else {
      MultiplyPanel<kFormat>(rows, num_rows, panel, num_groups, c);
    }
  }
  QUIRE_INLINE void Finish() {
    if (configured_rows_ > 0) ReleaseTiles();
  }

 private:
  // Rows of a tile through the groups at hand.
  template <PackedFormat kFormat>
  struct TileArgs {
    const UnpackedGroups<kFormat>& weights;
    QuantizedRows rows;  // at the tile's first row and the first group; groups of 16 rows
    int num_groups;
    bool first;  // sums start at zero
    float* c;    // [rows of the tile, kBlockCols]
  };

  // Not inlined: every epilogue uses the one of each format.
  template <PackedFormat kFormat>
  __attribute__((noinline)) void MultiplyByTiles(const QuantizedRows& rows, int num_rows,
                                                 const uint8_t* panel, int num_groups, float* c) {
    constexpr QuantFormat kQuant = QuantOf(kFormat);
    const int rest = num_rows % kTileSide;
    const int num_in_tiles = rest < kLeastTileRows ? num_rows - rest : num_rows;
    UnpackedGroups<kFormat> weights;
    for (int group = 0; group < num_groups; group += kTileGroups) {
      const int left = num_groups - group;
      TileArgs<kFormat> args = {.weights = weights,
                                .rows = rows,
                                .num_groups = left < kTileGroups ? left : kTileGroups,
                                .first = group == 0,
                                .c = c};
      args.rows.q += group * kGroupDepth;
      args.rows.groups += group;
      weights.Unpack(panel + group / kQuant.groups_per_span * kQuant.SpanBytes(), args.num_groups);
      for (int row = 0; row < num_in_tiles; row += kTileSide) {
        const int num = num_in_tiles - row < kTileSide ? num_in_tiles - row : kTileSide;
        Configure(num, kQuant.scale_depth);
        if (num == kTileSide) {
          MultiplyTile(args, kTileSide);
        } else {
          MultiplyPartOfTile(args, num);
        }
        args.rows.q += kTileSide * rows.q_stride;
        args.rows.groups += kTileSide * rows.group_stride;
        args.c += kTileSide * kBlockCols;
      }
    }
    if (num_in_tiles < num_rows) {
      QuantizedRows others = rows;
      others.q += num_in_tiles * rows.q_stride;
      others.groups += num_in_tiles * rows.group_stride;
      MultiplyPanel<kFormat>(others, num_rows - num_in_tiles, panel, num_groups,
                             c + num_in_tiles * kBlockCols);
    }
  }

  // Tiles 0 and 1 take sums, 4 and 5 activations, 6 and 7 weights.
  QUIRE_INLINE void Configure(int num_rows, int depth) {
    if (num_rows == configured_rows_) return;
    configured_rows_ = num_rows;
    TileConfig config;
    const auto set = [&](int tile, int rows, int bytes) __attribute__((always_inline)) {
      config.rows[tile] = static_cast<uint8_t>(rows);
      config.row_bytes[tile] = static_cast<uint16_t>(bytes);
    };
    for (int i = 0; i < 2; ++i) {
      set(i, num_rows, kTileRowBytes);
      set(4 + i, num_rows, depth);
      set(6 + i, depth / 4, kTileRowBytes);
    }
    ConfigureTiles(config);
  }

  // What is read for rows that the tile does not have must lie somewhere.
  template <PackedFormat kFormat>
  __attribute__((noinline)) static void MultiplyPartOfTile(TileArgs<kFormat> args, int num_rows) {
    RowGroup groups[kTileSide * kTileGroups] = {};
    for (int row = 0; row < num_rows; ++row) {
      __builtin_memcpy(groups + row * kTileGroups, args.rows.groups + row * args.rows.group_stride,
                       args.num_groups * sizeof(RowGroup));
    }
    args.rows.groups = groups;
    args.rows.group_stride = kTileGroups;
    MultiplyTile(args, num_rows);
  }

  template <PackedFormat kFormat>
  __attribute__((noinline)) static void MultiplyTile(const TileArgs<kFormat>& args, int num_rows) {
    constexpr int kScales = UnpackedGroups<kFormat>::kScales;
    const int num_steps = args.num_groups * kScales;
    for (int column = 0; column < kPanelCols; column += 16) {
      alignas(64) int32_t dots[2][kTileSide * 16];
      F32x16 acc[kTileSide];
      float* const c = args.c + column;
#pragma GCC unroll 16
      for (int r = 0; r < kTileSide; ++r) {
        acc[r] = args.first || r >= num_rows ? Zero16() : Load(c + r * kBlockCols);
      }
      // A step behind the tiles, which take long to answer.
      Dot<kFormat, 0>(args, 0, column, dots[0]);
#pragma GCC unroll 1
      for (int step = 0; step < num_steps; step += 2) {
        if (step + 1 < num_steps) Dot<kFormat, 1>(args, step + 1, column, dots[1]);
        AddStep(args, step, column, dots[0], acc);
        if (step + 1 == num_steps) break;
        if (step + 2 < num_steps) Dot<kFormat, 0>(args, step + 2, column, dots[0]);
        AddStep(args, step + 1, column, dots[1], acc);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kTileSide; ++r) {
        if (r < num_rows) Store(c + r * kBlockCols, acc[r]);
      }
    }
  }

  // dots[16, 16]: the sums of the elements of one scale, in 16 columns.
  template <PackedFormat kFormat, int kTile>
  QUIRE_INLINE static void Dot(const TileArgs<kFormat>& args, int step, int column, int32_t* dots) {
    constexpr int kScales = UnpackedGroups<kFormat>::kScales;
    constexpr int kQuads = kGroupQuads / kScales;
    const int group = step / kScales;
    const int quad = step % kScales * kQuads;
    ZeroTile<kTile>();
    LoadTile<4 + kTile>(args.rows.q + group * kGroupDepth + 4 * quad, args.rows.q_stride);
    LoadTile<6 + kTile>(args.weights.quads[group][quad] + 4 * column, kQuadBytes);
    MultiplyByteTiles<kTile, 4 + kTile, 6 + kTile>();
    StoreTile<kTile>(dots, kTileRowBytes);
  }

  template <PackedFormat kFormat>
  QUIRE_INLINE static void AddStep(const TileArgs<kFormat>& args, int step, int column,
                                   const int32_t* dots, F32x16 (&acc)[kTileSide]) {
    constexpr int kScales = UnpackedGroups<kFormat>::kScales;
    const int group = step / kScales;
    const F32x16 scale_w = Load(args.weights.scale[group][step % kScales] + column);
    const RowGroup* of_row = args.rows.groups + group;
#pragma GCC unroll 16
    for (int r = 0; r < kTileSide; ++r) {
      const F32x16 scale = Broadcast(of_row->scale) * scale_w;
      acc[r] = Fma(scale, ToFloat(LoadInt(dots + r * 16)), acc[r]);
      of_row += args.rows.group_stride;
    }
    if constexpr (QuantOf(kFormat).has_min) {
      const F32x16 min = Load(args.weights.min[group] + column);
      of_row = args.rows.groups + group;
#pragma GCC unroll 16
      for (int r = 0; r < kTileSide; ++r) {
        acc[r] = Fma(min, Broadcast(of_row->scaled_sum), acc[r]);
        of_row += args.rows.group_stride;
      }
    }
  }

  int configured_rows_ = 0;
};

// One definition: one source includes this file, and one of tests.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const GemmKernelsByFormat kQuantizedGemmKernels = kQuantizedKernelsByFormat<TileRows>;

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_A8G32_AMX_H_
