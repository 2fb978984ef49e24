#include "kernels/cpu/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/kv_block.h"
#include "kernels/cpu/reference/gemm.h"
#include "kernels/cpu/reference/math.h"

namespace quire::reference {
namespace {

constexpr int kMaxHeadDim = 512;

// What the tokens of one split, or of several merged, contribute.
struct Partial {
  float m = 0;
  float l = 0;
  float o[kMaxHeadDim];  // [head_dim]
};

float Score(const AttentionRow& row, int token) {
  const uint16_t* const k = row.k + token * row.token_stride;
  if (GoesByBlocks(row.mode)) {
    return DotBf16x32(row.q, 1, k, 1, row.head_dim) * row.scale;
  }
  float dot = DotBf16x2(row.q, 1, k, 1, row.head_dim);
  // head_dim is padded with zeros.
  for (int i = row.head_dim; i < PaddedHeadDim(row.head_dim); ++i) dot = std::fma(0.0f, 0.0f, dot);
  return dot * row.scale;
}

// Sum over tokens t in [first, last) of p[t - split_start] * v[t], v being `stride` apart.
float WeighByPairs(const uint16_t* p, const uint16_t* v, int64_t stride, int split_start, int first,
                   int last) {
  float o = 0;
  const auto add = [&](int t) {
    if (t < first || t >= last) return;
    o = std::fma(FromBf16(p[t - split_start]), FromBf16(v[t * stride]), o);
  };
  for (int pair = first / 2 * 2; pair < last; pair += 2) {
    add(pair + 1);
    add(pair);
  }
  return o;
}

// The same in mode bf16x32.
float WeighByBlocks(const uint16_t* p, const uint16_t* v, int64_t stride, int split_start,
                    int first, int last) {
  float o = 0;
  for (int block = first / 32 * 32; block < last; block += 32) {
    float sums[2] = {};  // of even and odd tokens
    for (int t = std::max(block, first); t < std::min(block + 32, last); ++t) {
      sums[t % 2] = std::fma(FromBf16(p[t - split_start]), FromBf16(v[t * stride]), sums[t % 2]);
    }
    o = o + (sums[0] + sums[1]);
  }
  return o;
}

// Tokens [first, last) of the split that starts at `split_start`, at least one.
void AttendSplit(const AttentionRow& row, int split_start, int first, int last, Partial* partial) {
  float scores[kKvSplitTokens];
  float m = -std::numeric_limits<float>::infinity();
  for (int t = first; t < last; ++t) {
    const float s = Score(row, t);
    scores[t - split_start] = s;
    m = s > m ? s : m;
  }
  uint16_t probs[kKvSplitTokens];
  Sum16 sum;
  for (int t = first; t < last; ++t) {
    const float p = Exp(scores[t - split_start] - m);
    sum.Add(t, p);
    probs[t - split_start] = RneBf16(p);
  }
  partial->m = m;
  partial->l = sum.Total();
  for (int dim = 0; dim < row.head_dim; ++dim) {
    const auto weigh = GoesByBlocks(row.mode) ? WeighByBlocks : WeighByPairs;
    const float o = weigh(probs, row.v + dim, row.token_stride, split_start, first, last);
    partial->o[dim] = o + 0.0f;
  }
}

void Merge(const Partial& partial, int head_dim, Partial* state) {
  const float m = state->m > partial.m ? state->m : partial.m;
  const float a = Exp(state->m - m);
  const float b = Exp(partial.m - m);
  state->m = m;
  state->l = std::fma(partial.l, b, state->l * a);
  for (int dim = 0; dim < head_dim; ++dim) {
    state->o[dim] = std::fma(partial.o[dim], b, state->o[dim] * a);
  }
}

}  // namespace

void Attend(const AttentionRow& row, uint16_t* out) {
  const int end = row.position + 1;
  const int begin = row.window == 0 ? 0 : std::max(0, end - row.window);
  Partial state;
  for (int split = begin / kKvSplitTokens; split * kKvSplitTokens < end; ++split) {
    const int start = split * kKvSplitTokens;
    const int first = std::max(begin, start);
    const int last = std::min(end, start + kKvSplitTokens);
    if (first == begin) {  // the first one
      AttendSplit(row, start, first, last, &state);
      continue;
    }
    Partial partial;
    AttendSplit(row, start, first, last, &partial);
    Merge(partial, row.head_dim, &state);
  }
  for (int dim = 0; dim < row.head_dim; ++dim) out[dim] = RneBf16(state.o[dim] / state.l);
}

}  // namespace quire::reference
