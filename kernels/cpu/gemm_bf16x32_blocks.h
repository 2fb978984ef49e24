#ifndef QUIRE_KERNELS_CPU_GEMM_BF16X32_BLOCKS_H_
#define QUIRE_KERNELS_CPU_GEMM_BF16X32_BLOCKS_H_

// How a product of the mode `bf16x32` is cut into blocks of rows, panels and depth, whatever
// multiplies a block: vectors (gemm_bf16x32.h) or tiles (gemm_bf16x32_amx.h).

#include <stdint.h>

#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_kernels.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/weight_blocks.h"

namespace quire {
inline namespace QUIRE_ISA {

// Two panels are computed together. Their sums of kDotBlockRows rows lie in memory between two
// pieces of k, so that what a piece reads stays in the L2 cache. Of quantised weights, making a
// block takes as long as its product with 60 rows.
inline constexpr int kDotBlockRows = 256;

// What a piece reads and accumulates, beside the weights.
struct DotPiece {
  const uint16_t* a;  // bf16 [num_rows, 32 * num_dots] at stride lda
  int64_t lda;
  int num_rows;
  int num_panels;  // 1 or 2
  int num_dots;    // blocks of 32 of k in the piece
  bool first;      // sums start at zero
  float* c;        // [num_rows, kBlockCols]
};

// The rest of k that does not fill a block, completed by zeros: what follows a row of activations
// may be anything.
struct DepthTail {
  alignas(64) uint16_t a[kDotBlockRows * kDotDepth];

  QUIRE_INLINE void Copy(const uint16_t* from, int64_t lda, int num_rows, int depth) {
    for (int row = 0; row < num_rows; ++row) {
      uint16_t* const to = a + row * kDotDepth;
      for (int i = 0; i < kDotDepth; ++i) to[i] = i < depth ? from[row * lda + i] : uint16_t{0};
    }
  }
};

// One block of rows and panels through all of k. c: [num_rows, kBlockCols]. Not inlined: every
// epilogue uses the one of each format.
template <PackedFormat kFormat, typename Multiplier>
__attribute__((noinline)) void MultiplyDotBlock(Multiplier& multiplier, const GemmArgs& args,
                                                int row, int num_rows, int panel, int num_panels,
                                                const DepthTail& tail, float* c) {
  const int64_t panel_bytes = PanelBytes(kFormat, args.k);
  const uint8_t* const panels = args.w + panel * panel_bytes;
  WeightBlocks<kFormat> blocks;
  const int whole_dots = args.k / kDotDepth;
  DotPiece piece = {.a = args.a + row * args.lda,
                    .lda = args.lda,
                    .num_rows = num_rows,
                    .num_panels = num_panels,
                    .num_dots = 0,
                    .first = true,
                    .c = c};
  for (int dot = 0; dot < whole_dots; dot += kPieceDots) {
    piece.num_dots = whole_dots - dot < kPieceDots ? whole_dots - dot : kPieceDots;
    blocks.Begin(panels, panel_bytes, dot);
    multiplier.Multiply(piece, blocks);
    piece.a += piece.num_dots * kDotDepth;
    piece.first = false;
  }
  if (args.k % kDotDepth != 0) {
    piece.a = tail.a;
    piece.lda = kDotDepth;
    piece.num_dots = 1;
    blocks.Begin(panels, panel_bytes, whole_dots);
    multiplier.Multiply(piece, blocks);
  }
}

// A GemmFn. `Multiplier` adds the products of a piece to its sums: Multiply(const DotPiece&,
// blocks), which first makes the blocks that it reads. Finish is called at the end; not a
// destructor, which would bring the tables of exceptions in.
template <typename Multiplier, PackedFormat kFormat, typename Epilogue>
void GemmByDots(const GemmArgs& args, int row_begin, int row_end, int unit_begin, int unit_end) {
  Multiplier multiplier;
  DepthTail tail;
  alignas(64) float c[kDotBlockRows * kBlockCols];
  const int rest = args.k % kDotDepth;
  const int panel_end = unit_end * Epilogue::kUnitPanels;
  for (int row = row_begin; row < row_end; row += kDotBlockRows) {
    const int num_rows = row_end - row < kDotBlockRows ? row_end - row : kDotBlockRows;
    if (rest != 0) tail.Copy(args.a + row * args.lda + args.k - rest, args.lda, num_rows, rest);
    for (int panel = unit_begin * Epilogue::kUnitPanels; panel < panel_end; panel += 2) {
      const int num_panels = panel_end - panel < 2 ? 1 : 2;
      MultiplyDotBlock<kFormat>(multiplier, args, row, num_rows, panel, num_panels, tail, c);
      for (int r = 0; r < num_rows; ++r) {
        FinishRow(Epilogue(), args, row + r, panel, num_panels, c + r * kBlockCols);
      }
    }
  }
  multiplier.Finish();
}

template <typename Multiplier>
struct DotGemm {
  template <PackedFormat kFormat, typename Epilogue>
  static constexpr GemmFn kRun = GemmByDots<Multiplier, kFormat, Epilogue>;
};

template <typename Multiplier>
inline constexpr GemmKernelsByFormat kDotKernelsByFormat =
    KernelsByFormat<DotGemm<Multiplier>>(kKernelsOf<DotGemm<Multiplier>, PackedFormat::kBf16>);

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_BF16X32_BLOCKS_H_
