#ifndef QUIRE_KERNELS_CPU_GEMM_BF16X2_H_
#define QUIRE_KERNELS_CPU_GEMM_BF16X2_H_

// The products of gemm.h, for the instruction set that the including file, one per set, is
// compiled for.

#include <stdint.h>

#include "kernels/cpu/gemm_dot.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_kernels.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/wide_tile.h"

namespace quire {
inline namespace QUIRE_ISA {

// Two panels are computed together: kBlockCols columns. Their accumulators of kBlockRows rows lie
// in memory between two pieces of kBlockDepth of k; so what a piece reads, kBlockDepth elements of
// kBlockCols columns and of kBlockRows rows, stays in the L2 cache.
inline constexpr int kBlockRows = 96;
inline constexpr int kBlockDepth = 1024;
inline constexpr int64_t kPairStride = 2 * kPanelCols;  // elements of a panel from pair to pair

// The first rows of a piece, which bring its weights into the L2 cache, ask for them this many
// pairs of k ahead. AVX2 gains up to 1.7x for 2 to 16 rows by it, measured on Zen 5.
inline constexpr int kFetchAhead = 32;

// What a block of products reads and accumulates.
struct BlockArgs {
  const uint16_t* a;  // bf16 [rows, lda], at the first k of the piece
  int64_t lda;
  const uint16_t* w;     // the first panel, at the first k of the piece
  int64_t panel_stride;  // elements from one panel to the next
  int num_panels;        // 1 or 2
  int num_pairs;         // of k in the piece
  bool first;            // accumulators start at zero
  float* c;              // [rows, kBlockCols]
};

template <int R, int C>
QUIRE_INLINE void MultiplyTile(const BlockArgs& block, int row, int vector) {
  const uint16_t* b[C];
#pragma GCC unroll 8
  for (int i = 0; i < C; ++i) {
    b[i] = block.w + (vector + i) / 2 * block.panel_stride + (vector + i) % 2 * kPanelCols;
  }
  float* c = block.c + row * kBlockCols + vector * 16;
  F32x16 acc[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int i = 0; i < C; ++i) {
      acc[r][i] = block.first ? Zero16() : Load(c + r * kBlockCols + i * 16);
    }
  }
  const uint16_t* a = block.a + row * block.lda;
  if (row == 0) {
    DotPairs<R, C>(
        acc, a, block.lda, b, kPairStride,
        block.num_pairs, [&](int i) __attribute__((always_inline)) {
          for (int j = 0; j < C; ++j) Fetch(b[j] + (i + kFetchAhead) * kPairStride);
        });
  } else {
    DotPairs<R, C>(acc, a, block.lda, b, kPairStride, block.num_pairs, Nothing());
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int i = 0; i < C; ++i) Store(c + r * kBlockCols + i * 16, acc[r][i]);
  }
}

// R rows of all columns of the block.
template <int R>
QUIRE_INLINE void MultiplyRows(const BlockArgs& block, int row) {
  constexpr int kVectors = TileVectors(R);
  const int num_vectors = 2 * block.num_panels;
  int vector = 0;
  for (; vector + kVectors <= num_vectors; vector += kVectors) {
    MultiplyTile<R, kVectors>(block, row, vector);
  }
  if constexpr (kVectors > 2) {
    if (vector < num_vectors) MultiplyTile<R, 2>(block, row, vector);
  }
}

#if defined(__AVX2__) && !defined(__AVX512F__)

static void MultiplyWide(const BlockArgs& block, int num_rows) {
  WideOperands<kBlockRows> wide;
  for (int pair = 0; pair < block.num_pairs; pair += kWideDepth / 2) {
    const int left = block.num_pairs - pair;
    const int num_pairs = left < kWideDepth / 2 ? left : kWideDepth / 2;
    WidenRows(block.a + 2 * pair, block.lda, num_rows, num_pairs, &wide);
    for (int vector = 0; vector < 2 * block.num_panels; ++vector) {
      const uint16_t* w =
          block.w + vector / 2 * block.panel_stride + vector % 2 * kPanelCols + pair * kPairStride;
      for (int i = 0; i < num_pairs; ++i, w += kPairStride) {
        Fetch(w + kFetchAhead * kPairStride);
        WidenColumns(w, 2 * i, &wide);
      }
      MultiplyWideRows(wide, num_rows, 2 * num_pairs, block.first && pair == 0,
                       block.c + vector * 16, kBlockCols);
    }
  }
}

#else

static void MultiplyWide(const BlockArgs&, int) {}

#endif

static void MultiplyPiece(const BlockArgs& block, int num_rows) {
  if (kHasWideTiles && num_rows >= kMinWideRows) {
    MultiplyWide(block, num_rows);
  } else {
    ForRowTiles(num_rows, [&]<int R>(int row) { MultiplyRows<R>(block, row); });
  }
}

// One block of rows and panels through all of k.
template <typename Epilogue>
QUIRE_INLINE void MultiplyBlock(const GemmArgs& args, int row, int num_rows, int panel,
                                int panel_end) {
  const int num_panels = panel_end - panel < 2 ? 1 : 2;
  alignas(64) float c[kBlockRows * kBlockCols];
  const int padded_k = PaddedK(args.k);
  const int64_t panel_elems = PanelBytes(PackedFormat::kBf16, args.k) / 2;
  const uint16_t* w = reinterpret_cast<const uint16_t*>(args.w) + panel * panel_elems;
  for (int k = 0; k < padded_k; k += kBlockDepth) {
    const int depth = padded_k - k < kBlockDepth ? padded_k - k : kBlockDepth;
    const BlockArgs block = {.a = args.a + row * args.lda + k,
                             .lda = args.lda,
                             .w = w + k * kPanelCols,
                             .panel_stride = panel_elems,
                             .num_panels = num_panels,
                             .num_pairs = depth / 2,
                             .first = k == 0,
                             .c = c};
    MultiplyPiece(block, num_rows);
  }
  for (int r = 0; r < num_rows; ++r) {
    FinishRow(Epilogue(), args, row + r, panel, num_panels, c + r * kBlockCols);
  }
}

template <typename Epilogue>
void Gemm(const GemmArgs& args, int row_begin, int row_end, int unit_begin, int unit_end) {
  const int panel_end = unit_end * Epilogue::kUnitPanels;
  for (int row = row_begin; row < row_end; row += kBlockRows) {
    const int num_rows = row_end - row < kBlockRows ? row_end - row : kBlockRows;
    for (int panel = unit_begin * Epilogue::kUnitPanels; panel < panel_end; panel += 2) {
      MultiplyBlock<Epilogue>(args, row, num_rows, panel, panel_end);
    }
  }
}

// One definition for each instruction set: one source of each includes this file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const GemmKernels kGemmKernels = {Gemm<StoreEpilogue>, Gemm<AddEpilogue>,
                                         Gemm<SiluMulEpilogue>};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_BF16X2_H_
