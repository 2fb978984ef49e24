#ifndef QUIRE_KERNELS_CPU_ATTENTION_SOFTMAX_H_
#define QUIRE_KERNELS_CPU_ATTENTION_SOFTMAX_H_

// What attention does between its two products and after them, in every mode. For the instruction
// set that the including file is compiled for. attention.h has the definition.

#include <stdint.h>

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// V is fetched while scores are computed, K of the next split while V is summed: the first tile of
// rows asks for a cache line beside each one that it reads.
inline constexpr int kLineElems = 32;

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
    F32x16 p = ExpOfNegative16(Load(scores + group * kKvGroupTokens) - m16);
    if (first > 0 || last < kKvGroupTokens) p = Select(VisibleTokens(first, last), p, Zero16());
    sum = sum + p;
    StoreBf16(probs + group * kKvGroupTokens, p);
  }
  partial.m[row] = m;
  partial.l[row] = SumLanes(sum);
}

// From the scores of all rows to their probs, m and l.
static void Softmax(const AttentionSplit& split, const AttentionScratch& scratch,
                    const AttentionPartial& partial) {
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

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ATTENTION_SOFTMAX_H_
