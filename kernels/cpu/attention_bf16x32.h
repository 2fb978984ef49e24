#ifndef QUIRE_KERNELS_CPU_ATTENTION_BF16X32_H_
#define QUIRE_KERNELS_CPU_ATTENTION_BF16X32_H_

// The kernels of attention_kernels.h in mode `bf16x32`, for the instruction set that the including
// file, one per set, is compiled for. attention.h has the definition.

#include <stdint.h>

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/attention_softmax.h"
#include "kernels/cpu/dot_bf16x32.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

inline constexpr int kDotPairs = 16;  // a block of 32 dims, or of 32 tokens: two groups
inline constexpr int kGroupsPerDot = 2 * kDotPairs / kKvGroupTokens;

// scores[row .. row + R) of C groups of tokens, not yet scaled.
template <int R, int C>
QUIRE_INLINE void ScoreGroupsByDots(const AttentionSplit& split, int row, int group,
                                    float* scores) {
  const uint16_t* k[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) k[c] = split.k[group + c];
  const uint16_t* q = split.q + row * split.padded_head_dim;
  float* const out = scores + row * kKvSplitTokens + group * kKvGroupTokens;
  const int num_dots = split.padded_head_dim / (2 * kDotPairs);
#pragma GCC unroll 1
  for (int dot = 0; dot < num_dots; ++dot) {
    if (row == 0) {
      // As many cache lines as K has, pair by pair.
      for (int i = dot * kDotPairs; i < (dot + 1) * kDotPairs; ++i) {
        for (int c = 0; c < C; ++c) Fetch(split.v[group + c] + i * kLineElems);
      }
    }
    AddBlock<R, C>(
        out, kKvSplitTokens,
        dot == 0, [&]<typename Half>(Half, F32x16(&sum)[R][C]) __attribute__((always_inline)) {
          DotHalves<Half, R, C>(sum, q, split.padded_head_dim, k, 2 * kKvGroupTokens, kDotPairs);
        });
    q += 2 * kDotPairs;
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) k[c] += kDotPairs * 2 * kKvGroupTokens;
  }
}

template <int R>
QUIRE_INLINE void ScoreRowsByDots(const AttentionSplit& split, int row, int group, int group_end,
                                  float* scores) {
  constexpr int kVectors = TileVectors(R);
  for (; group + kVectors <= group_end; group += kVectors) {
    ScoreGroupsByDots<R, kVectors>(split, row, group, scores);
  }
  if constexpr (kVectors > 1) {
    for (; group < group_end; ++group) ScoreGroupsByDots<R, 1>(split, row, group, scores);
  }
}

// out[row .. row + R) of C * 16 dims, from `dim`. Blocks of 32 tokens lie at absolute positions; of
// the first and the last one a group may be seen by no row, and is left out.
template <int R, int C>
QUIRE_INLINE void WeighDimsByDots(const AttentionSplit& split, int row, int dim,
                                  const uint16_t* probs, float* out) {
  constexpr int kPairs = kKvGroupTokens / 2;
  float* const to = out + row * split.padded_head_dim + dim;
  const int first_dot = split.group_begin / kGroupsPerDot;
#pragma GCC unroll 1
  for (int dot = first_dot; dot * kGroupsPerDot < split.group_end; ++dot) {
    const int begin = dot == first_dot ? split.group_begin : dot * kGroupsPerDot;
    const int whole = (dot + 1) * kGroupsPerDot;
    const int end = whole < split.group_end ? whole : split.group_end;
    const bool first = dot == first_dot;
    AddBlock<R, C>(
        to, split.padded_head_dim,
        first, [&]<typename Half>(Half, F32x16(&sum)[R][C]) __attribute__((always_inline)) {
#pragma GCC unroll 1
          for (int group = begin; group < end; ++group) {
            const uint16_t* v[C];
#pragma GCC unroll 8
            for (int c = 0; c < C; ++c) v[c] = split.v[group] + (dim + 16 * c) * 2;
            DotHalves<Half, R, C>(sum, probs + row * kKvSplitTokens + group * kKvGroupTokens,
                                  kKvSplitTokens, v, 2 * split.padded_head_dim, kPairs);
          }
        });
    if (row > 0) continue;
    for (int group = begin; group < end; ++group) {
      for (int i = 0; i < C * kPairs; ++i) {
        Fetch(split.next_k[group] + (dim / 16 * kPairs + i) * kLineElems);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      // + 0: see attention.h.
      float* const at = to + r * split.padded_head_dim + 16 * c;
      Store(at, Load(at) + Zero16());
    }
  }
}

template <int R>
QUIRE_INLINE void WeighRowsByDots(const AttentionSplit& split, int row, const uint16_t* probs,
                                  float* out) {
  constexpr int kVectors = TileVectors(R);
  int dim = 0;
  for (; dim + 16 * kVectors <= split.padded_head_dim; dim += 16 * kVectors) {
    WeighDimsByDots<R, kVectors>(split, row, dim, probs, out);
  }
  if constexpr (kVectors > 2) {  // padded_head_dim is a multiple of 32
    if (dim < split.padded_head_dim) WeighDimsByDots<R, 2>(split, row, dim, probs, out);
  }
}

static void ComputeSplitByDots(const AttentionSplit& split, const AttentionScratch& scratch,
                               const AttentionPartial& partial) {
  // All rows over a few groups, whose K stays in the L1 cache meanwhile.
  for (int group = split.group_begin; group < split.group_end; group += kRowVectors) {
    const int left = split.group_end - group;
    const int end = group + (left < kRowVectors ? left : kRowVectors);
    ForRowTiles(split.num_rows, [&]<int R>(int row) {
      ScoreRowsByDots<R>(split, row, group, end, scratch.scores);
    });
  }
  Softmax(split, scratch, partial);
  ForRowTiles(split.num_rows,
              [&]<int R>(int row) { WeighRowsByDots<R>(split, row, scratch.probs, partial.o); });
}

// One definition for each instruction set: one source of each includes this file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const AttentionKernels kBf16x32AttentionKernels = {ComputeSplitByDots, MergeSplit,
                                                          FinishRows};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ATTENTION_BF16X32_H_
