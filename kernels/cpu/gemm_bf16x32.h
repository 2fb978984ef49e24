#ifndef QUIRE_KERNELS_CPU_GEMM_BF16X32_H_
#define QUIRE_KERNELS_CPU_GEMM_BF16X32_H_

// The products of mode `bf16x32` (gemm.h) by vectors, for the instruction set that the including
// file, one per set, is compiled for.

#include <stdint.h>

#include "kernels/cpu/dot_bf16x32.h"
#include "kernels/cpu/gemm_bf16x32_blocks.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_kernels.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// The blocks of a piece: panels are `stride` elements apart.
struct PiecePanels {
  const uint16_t* w;
  int64_t stride;
};

// R rows and C vectors of columns of a piece.
template <int R, int C>
QUIRE_INLINE void MultiplyDots(const DotPiece& piece, const PiecePanels& panels, int row,
                               int vector) {
  const uint16_t* b[C];
#pragma GCC unroll 8
  for (int i = 0; i < C; ++i) {
    b[i] = panels.w + (vector + i) / 2 * panels.stride + (vector + i) % 2 * kPanelCols;
  }
  const uint16_t* a = piece.a + row * piece.lda;
  float* const c = piece.c + row * kBlockCols + vector * 16;
#pragma GCC unroll 1
  for (int dot = 0; dot < piece.num_dots; ++dot) {
    const bool first = piece.first && dot == 0;
    AddBlock<R, C>(
        c, kBlockCols,
        first, [&]<typename Half>(Half, F32x16(&sum)[R][C]) __attribute__((always_inline)) {
          DotHalves<Half, R, C>(sum, a, piece.lda, b, kPairElems, kDotDepth / 2);
        });
    a += kDotDepth;
#pragma GCC unroll 8
    for (int i = 0; i < C; ++i) b[i] += kBlockElems;
  }
}

template <int R>
QUIRE_INLINE void MultiplyDotRows(const DotPiece& piece, const PiecePanels& panels, int row) {
  constexpr int kVectors = TileVectors(R);
  const int num_vectors = 2 * piece.num_panels;
  int vector = 0;
  for (; vector + kVectors <= num_vectors; vector += kVectors) {
    MultiplyDots<R, kVectors>(piece, panels, row, vector);
  }
  if constexpr (kVectors > 2) {
    if (vector < num_vectors) MultiplyDots<R, 2>(piece, panels, row, vector);
  }
}

// Not inlined: every format and epilogue uses it.
__attribute__((noinline)) static void MultiplyDotPiece(const DotPiece& piece,
                                                       const PiecePanels& panels) {
  ForRowTiles(piece.num_rows, [&]<int R>(int row) { MultiplyDotRows<R>(piece, panels, row); });
}

struct VectorMultiplier {
  template <typename Blocks>
  QUIRE_INLINE void Multiply(const DotPiece& piece, Blocks& blocks) {
    for (int panel = 0; panel < piece.num_panels; ++panel) {
      for (int dot = 0; dot < piece.num_dots; ++dot) blocks.Make(panel, dot);
    }
    MultiplyDotPiece(piece, {.w = blocks.Panel(0), .stride = blocks.PanelElems()});
  }
  QUIRE_INLINE void Finish() {}
};

// One definition for each instruction set: one source of each includes this file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const GemmKernelsByFormat kBf16x32GemmKernels = kDotKernelsByFormat<VectorMultiplier>;

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_BF16X32_H_
