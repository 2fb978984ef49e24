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

// R rows and C vectors of columns of a piece.
template <int R, int C>
QUIRE_INLINE void MultiplyDots(const DotPiece& piece, int row, int vector) {
  constexpr int kPairs = kDotDepth / 2;
  constexpr int64_t kPairElems = 2 * kPanelCols;  // of a panel, from pair to pair
  const uint16_t* b[C];
#pragma GCC unroll 8
  for (int i = 0; i < C; ++i) {
    b[i] = piece.w + (vector + i) / 2 * piece.panel_stride + (vector + i) % 2 * kPanelCols;
  }
  const uint16_t* a = piece.a + row * piece.lda;
  float* const c = piece.c + row * kBlockCols + vector * 16;
#pragma GCC unroll 1
  for (int dot = 0; dot < piece.num_dots; ++dot) {
    const bool first = piece.first && dot == 0;
    AddBlock<R, C>(
        c, kBlockCols,
        first, [&]<typename Half>(Half, F32x16(&sum)[R][C]) __attribute__((always_inline)) {
          DotHalves<Half, R, C>(sum, a, piece.lda, b, kPairElems, kPairs);
        });
    a += kDotDepth;
#pragma GCC unroll 8
    for (int i = 0; i < C; ++i) b[i] += kPairs * kPairElems;
  }
}

template <int R>
QUIRE_INLINE void MultiplyDotRows(const DotPiece& piece, int row) {
  constexpr int kVectors = TileVectors(R);
  const int num_vectors = 2 * piece.num_panels;
  int vector = 0;
  for (; vector + kVectors <= num_vectors; vector += kVectors) {
    MultiplyDots<R, kVectors>(piece, row, vector);
  }
  if constexpr (kVectors > 2) {
    if (vector < num_vectors) MultiplyDots<R, 2>(piece, row, vector);
  }
}

static void MultiplyDotPiece(const DotPiece& piece) {
  ForRowTiles(piece.num_rows, [&]<int R>(int row) { MultiplyDotRows<R>(piece, row); });
}

struct VectorMultiplier {
  QUIRE_INLINE void Multiply(const DotPiece& piece) { MultiplyDotPiece(piece); }
  QUIRE_INLINE void Finish() {}
};

// One definition for each instruction set: one source of each includes this file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const GemmKernels kBf16x32GemmKernels = {GemmByDots<VectorMultiplier, StoreEpilogue>,
                                                GemmByDots<VectorMultiplier, AddEpilogue>,
                                                GemmByDots<VectorMultiplier, SiluMulEpilogue>};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_BF16X32_H_
