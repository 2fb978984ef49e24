#ifndef QUIRE_KERNELS_CPU_ATTENTION_BF16X2_H_
#define QUIRE_KERNELS_CPU_ATTENTION_BF16X2_H_

// The kernels of attention_kernels.h in mode `bf16x2`, for the instruction set that the including
// file, one per set, is compiled for. attention.h has the definition.

#include <stdint.h>

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/attention_softmax.h"
#include "kernels/cpu/gemm_dot.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/wide_tile.h"

namespace quire {
inline namespace QUIRE_ISA {

// scores[row .. row + R) of C groups of tokens, not yet scaled.
template <int R, int C>
QUIRE_INLINE void ScoreGroups(const AttentionSplit& split, int row, int group, float* scores) {
  const uint16_t* k[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) k[c] = split.k[group + c];
  F32x16 acc[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[r][c] = Zero16();
  }
  const uint16_t* q = split.q + row * split.padded_head_dim;
  const int num_pairs = split.padded_head_dim / 2;
  if (row == 0) {
    DotPairs<R, C>(
        acc, q, split.padded_head_dim, k, 2 * kKvGroupTokens,
        num_pairs, [&](int i) __attribute__((always_inline)) {
          // As many cache lines as K has, pair by pair.
          for (int c = 0; c < C; ++c) Fetch(split.v[group + c] + i * kLineElems);
        });
  } else {
    DotPairs<R, C>(acc, q, split.padded_head_dim, k, 2 * kKvGroupTokens, num_pairs, Nothing());
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      Store(scores + (row + r) * kKvSplitTokens + (group + c) * kKvGroupTokens, acc[r][c]);
    }
  }
}

template <int R>
QUIRE_INLINE void ScoreRows(const AttentionSplit& split, int row, int group, int group_end,
                            float* scores) {
  constexpr int kVectors = TileVectors(R);
  for (; group + kVectors <= group_end; group += kVectors) {
    ScoreGroups<R, kVectors>(split, row, group, scores);
  }
  if constexpr (kVectors > 1) {
    for (; group < group_end; ++group) ScoreGroups<R, 1>(split, row, group, scores);
  }
}

// out[row .. row + R) of C * 16 dims, from `dim`.
template <int R, int C>
QUIRE_INLINE void WeighDims(const AttentionSplit& split, int row, int dim, const uint16_t* probs,
                            float* out) {
  constexpr int kPairs = kKvGroupTokens / 2;
  F32x16 acc[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[r][c] = Zero16();
  }
  for (int group = split.group_begin; group < split.group_end; ++group) {
    const uint16_t* v[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) v[c] = split.v[group] + (dim + 16 * c) * 2;
    const uint16_t* p = probs + row * kKvSplitTokens + group * kKvGroupTokens;
    if (row == 0) {
      DotPairs<R, C>(
          acc, p, kKvSplitTokens, v, 2 * split.padded_head_dim,
          kPairs, [&](int i) __attribute__((always_inline)) {
            for (int c = 0; c < C; ++c) {
              Fetch(split.next_k[group] + ((dim / 16 + c) * kPairs + i) * kLineElems);
            }
          });
    } else {
      DotPairs<R, C>(acc, p, kKvSplitTokens, v, 2 * split.padded_head_dim, kPairs, Nothing());
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      // + 0: see attention.h.
      Store(out + (row + r) * split.padded_head_dim + dim + 16 * c, acc[r][c] + Zero16());
    }
  }
}

template <int R>
QUIRE_INLINE void WeighRows(const AttentionSplit& split, int row, const uint16_t* probs,
                            float* out) {
  constexpr int kVectors = TileVectors(R);
  int dim = 0;
  for (; dim + 16 * kVectors <= split.padded_head_dim; dim += 16 * kVectors) {
    WeighDims<R, kVectors>(split, row, dim, probs, out);
  }
  if constexpr (kVectors > 2) {  // padded_head_dim is a multiple of 32
    if (dim < split.padded_head_dim) WeighDims<R, 2>(split, row, dim, probs, out);
  }
}

// Scores of all rows over groups [group_begin, group_end).
static void ComputeScores(const AttentionSplit& split, float* scores) {
  // All rows over a few groups, whose K stays in the L1 cache meanwhile.
  for (int group = split.group_begin; group < split.group_end; group += kRowVectors) {
    const int left = split.group_end - group;
    const int end = group + (left < kRowVectors ? left : kRowVectors);
    ForRowTiles(split.num_rows,
                [&]<int R>(int row) { ScoreRows<R>(split, row, group, end, scores); });
  }
}

#if defined(__AVX2__) && !defined(__AVX512F__)

using WideRows = WideOperands<kAttentionTileRows>;

static void ComputeScoresWide(const AttentionSplit& split, float* scores) {
  WideRows wide;
  for (int dim = 0; dim < split.padded_head_dim; dim += kWideDepth) {
    const int left = split.padded_head_dim - dim;
    const int depth = left < kWideDepth ? left : kWideDepth;
    WidenRows(split.q + dim, split.padded_head_dim, split.num_rows, depth / 2, &wide);
    for (int group = split.group_begin; group < split.group_end; ++group) {
      for (int i = 0; i < depth / 2; ++i) {
        const int64_t line = dim / 2 + i;
        Fetch(split.v[group] + line * kLineElems);
        WidenColumns(split.k[group] + line * 2 * kKvGroupTokens, 2 * i, &wide);
      }
      MultiplyWideRows(wide, split.num_rows, depth, dim == 0, scores + group * kKvGroupTokens,
                       kKvSplitTokens);
    }
  }
}

static void WeighWide(const AttentionSplit& split, const uint16_t* probs, float* out) {
  constexpr int kGroups = kWideDepth / kKvGroupTokens;
  constexpr int kPairs = kKvGroupTokens / 2;
  WideRows wide;
  for (int begin = split.group_begin; begin < split.group_end; begin += kGroups) {
    const int left = split.group_end - begin;
    const int num_groups = left < kGroups ? left : kGroups;
    WidenRows(probs + begin * kKvGroupTokens, kKvSplitTokens, split.num_rows, num_groups * kPairs,
              &wide);
    for (int dim = 0; dim < split.padded_head_dim; dim += 16) {
      for (int i = 0; i < num_groups * kPairs; ++i) {
        const int group = begin + i / kPairs;
        const int pair = i % kPairs;
        Fetch(split.next_k[group] + (dim / 16 * kPairs + pair) * kLineElems);
        WidenColumns(split.v[group] + (pair * split.padded_head_dim + dim) * 2, 2 * i, &wide);
      }
      MultiplyWideRows(wide, split.num_rows, num_groups * kKvGroupTokens,
                       begin == split.group_begin, out + dim, split.padded_head_dim);
    }
  }
  // + 0: see attention.h.
  const int size = split.num_rows * split.padded_head_dim;
  for (int i = 0; i < size; i += 16) Store(out + i, Load(out + i) + Zero16());
}

#else

static void ComputeScoresWide(const AttentionSplit&, float*) {}
static void WeighWide(const AttentionSplit&, const uint16_t*, float*) {}

#endif

static void ComputeSplit(const AttentionSplit& split, const AttentionScratch& scratch,
                         const AttentionPartial& partial) {
  if (kHasWideTiles && split.num_rows >= kMinWideRows) {
    ComputeScoresWide(split, scratch.scores);
    Softmax(split, scratch, partial);
    WeighWide(split, scratch.probs, partial.o);
    return;
  }
  ComputeScores(split, scratch.scores);
  Softmax(split, scratch, partial);
  ForRowTiles(split.num_rows,
              [&]<int R>(int row) { WeighRows<R>(split, row, scratch.probs, partial.o); });
}

// One definition for each instruction set: one source of each includes this file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const AttentionKernels kAttentionKernels = {ComputeSplit, MergeSplit, FinishRows};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ATTENTION_BF16X2_H_
