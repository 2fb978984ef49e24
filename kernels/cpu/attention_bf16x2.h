#ifndef QUIRE_KERNELS_CPU_ATTENTION_BF16X2_H_
#define QUIRE_KERNELS_CPU_ATTENTION_BF16X2_H_

// The kernels of attention_kernels.h, for the instruction set that the including file, one per set,
// is compiled for. attention.h has the definition.

#include <stdint.h>

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/gemm_dot.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// V is fetched while scores are computed, K of the next split while V is summed: the first tile of
// rows asks for a cache line beside each one that it reads.
inline constexpr int kLineElems = 32;

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

// The tokens of one group that a row sees: [first, last) within 0 .. 16.
QUIRE_INLINE Mask16 VisibleTokens(int first, int last) {
  return FirstN(last) & LessInt(BroadcastInt(first - 1), Iota16());
}

// From scores of one row to its probs, m and l. lo < hi.
QUIRE_INLINE void SoftmaxRow(const AttentionSplit& split, int row, float* scores, uint16_t* probs,
                             const AttentionPartial& partial) {
  const F32x16 scale = Broadcast(split.scale);
  const F32x16 minus_infinity = AsFloat(BroadcastInt(static_cast<int32_t>(0xff800000u)));
  F32x16 max = minus_infinity;
  for (int group = split.group_begin; group < split.group_end; ++group) {
    float* s = scores + group * kKvGroupTokens;
    const int first = split.lo[row] - group * kKvGroupTokens;
    const int last = split.hi[row] - group * kKvGroupTokens;
    F32x16 x = Load(s) * scale;
    if (first > 0 || last < kKvGroupTokens) {
      x = Select(VisibleTokens(first, last), x, minus_infinity);
    }
    Store(s, x);
    max = Max(x, max);
  }
  const float m = MaxLanes(max);
  const F32x16 m16 = Broadcast(m);
  F32x16 sum = Zero16();
  for (int group = split.group_begin; group < split.group_end; ++group) {
    const int first = split.lo[row] - group * kKvGroupTokens;
    const int last = split.hi[row] - group * kKvGroupTokens;
    F32x16 p = Exp16(Load(scores + group * kKvGroupTokens) - m16);
    if (first > 0 || last < kKvGroupTokens) p = Select(VisibleTokens(first, last), p, Zero16());
    sum = sum + p;
    StoreBf16(probs + group * kKvGroupTokens, p);
  }
  partial.m[row] = m;
  partial.l[row] = SumLanes(sum);
}

static void ComputeSplit(const AttentionSplit& split, const AttentionScratch& scratch,
                         const AttentionPartial& partial) {
  ComputeScores(split, scratch.scores);
  for (int row = 0; row < split.num_rows; ++row) {
    float* scores = scratch.scores + row * kKvSplitTokens;
    uint16_t* probs = scratch.probs + row * kKvSplitTokens;
    if (split.lo[row] < split.hi[row]) {
      SoftmaxRow(split, row, scores, probs, partial);
      continue;
    }
    partial.m[row] = 0;
    partial.l[row] = 0;
    for (int group = split.group_begin; group < split.group_end; ++group) {
      StoreBf16(probs + group * kKvGroupTokens, Zero16());
    }
  }
  ForRowTiles(split.num_rows,
              [&]<int R>(int row) { WeighRows<R>(split, row, scratch.probs, partial.o); });
}

static void MergeSplit(const AttentionPartial& partial, int num_rows, int padded_head_dim,
                       const AttentionPartial& state) {
  for (int row = 0; row < num_rows; ++row) {
    if (partial.l[row] == 0) continue;
    const float* from = partial.o + row * padded_head_dim;
    float* to = state.o + row * padded_head_dim;
    if (state.l[row] == 0) {
      state.m[row] = partial.m[row];
      state.l[row] = partial.l[row];
      for (int dim = 0; dim < padded_head_dim; dim += 16) Store(to + dim, Load(from + dim));
      continue;
    }
    const F32x16 old_m = Broadcast(state.m[row]);
    const F32x16 new_m = Broadcast(partial.m[row]);
    const F32x16 m = Max(old_m, new_m);
    const F32x16 a = Exp16(old_m - m);
    const F32x16 b = Exp16(new_m - m);
    StoreN(state.m + row, m, 1);
    const F32x16 l = Fma(Broadcast(partial.l[row]), b, Broadcast(state.l[row]) * a);
    StoreN(state.l + row, l, 1);
    for (int dim = 0; dim < padded_head_dim; dim += 16) {
      Store(to + dim, Fma(Load(from + dim), b, Load(to + dim) * a));
    }
  }
}

static void FinishRows(const AttentionPartial& state, int num_rows, int head_dim,
                       int padded_head_dim, uint16_t* const* out) {
  for (int row = 0; row < num_rows; ++row) {
    const F32x16 l = Broadcast(state.l[row]);
    const float* o = state.o + row * padded_head_dim;
    for (int dim = 0; dim < head_dim; dim += 16) {
      const int count = head_dim - dim < 16 ? head_dim - dim : 16;
      StoreBf16N(out[row] + dim, Load(o + dim) / l, count);
    }
  }
}

// One definition for each instruction set: one source of each includes this file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const AttentionKernels kAttentionKernels = {ComputeSplit, MergeSplit, FinishRows};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ATTENTION_BF16X2_H_
