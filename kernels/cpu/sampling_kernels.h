#ifndef QUIRE_KERNELS_CPU_SAMPLING_KERNELS_H_
#define QUIRE_KERNELS_CPU_SAMPLING_KERNELS_H_

// The passes over a row of logits that sampling is made of (sampling.h puts them together). All of
// them are order-free: counts and sums are integers, an argmax breaks ties by the lowest id.

#include <stdint.h>

#include "kernels/cpu/math.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// The best value seen by each lane, and its id; the earliest among equals.
struct LaneBest {
  F32x16 value;
  I32x16 id;
};

QUIRE_INLINE LaneBest NoBest() {
  return {AsFloat(BroadcastInt(static_cast<int32_t>(0xff800000u))), BroadcastInt(0)};
}

QUIRE_INLINE void Offer(LaneBest& best, F32x16 value, I32x16 id) {
  const Mask16 better = Less(best.value, value);
  best.value = Select(better, value, best.value);
  best.id = Select(better, id, best.id);
}

QUIRE_INLINE int32_t LowestIdOfMax(const LaneBest& best) {
  float values[16];
  int32_t ids[16];
  Store(values, best.value);
  StoreInt(ids, best.id);
  int winner = 0;
  for (int i = 1; i < 16; ++i) {
    const bool tie = values[i] == values[winner] && ids[i] < ids[winner];
    if (values[i] > values[winner] || tie) winner = i;
  }
  return ids[winner];
}

// Lanes at n and past it read as -infinity.
QUIRE_INLINE F32x16 LoadOrNever(const float* p, int n) {
  if (n >= 16) return Load(p);
  return Select(FirstN(n), LoadN(p, n), NoBest().value);
}

inline int32_t ArgMaxRow(const float* logits, int n) {
  LaneBest best = NoBest();
  for (int i = 0; i < n; i += 16) {
    Offer(best, LoadOrNever(logits + i, n - i), Iota16() + BroadcastInt(i));
  }
  return LowestIdOfMax(best);
}

// scores = logits / temperature + 0 (so that no -0 is among them); returns their maximum, NaNs left
// out.
inline float ScaleRow(const float* logits, int n, float temperature, float* scores) {
  const F32x16 t = Broadcast(temperature);
  F32x16 max = NoBest().value;
  for (int i = 0; i < n; i += 16) {
    const F32x16 s = LoadOrNever(logits + i, n - i) / t + Zero16();
    max = Max(s, max);
    if (n - i >= 16) {
      Store(scores + i, s);
    } else {
      StoreN(scores + i, s, n - i);
    }
  }
  return MaxLanes(max);
}

// A weight floor(exp(d) * 2^40), d <= 0, is high * 2^20 + low, both below 2^21; 0 where d is a NaN.
struct Weight16 {
  I32x16 high;
  I32x16 low;
};

QUIRE_INLINE Weight16 WeightsOf(F32x16 d) {
  F32x16 p = Exp16(d);
  p = Select(LessEqual(p, Broadcast(1.0f)), p, Zero16());
  const F32x16 scaled = p * Broadcast(0x1p20f);
  const I32x16 high = TruncateToInt(scaled);
  const F32x16 rest = scaled - ToFloat(high);
  return {high, TruncateToInt(rest * Broadcast(0x1p20f))};
}

QUIRE_INLINE uint64_t TotalOf(const Weight16& sums) {
  int32_t high[16], low[16];
  StoreInt(high, sums.high);
  StoreInt(low, sums.low);
  uint64_t total = 0;
  for (int i = 0; i < 16; ++i) {
    total += (uint64_t{static_cast<uint32_t>(high[i])} << 20) + static_cast<uint32_t>(low[i]);
  }
  return total;
}

QUIRE_INLINE void AddWeights(Weight16& sums, const Weight16& w) {
  sums.high = sums.high + w.high;
  sums.low = sums.low + w.low;
}

inline void SumLevels(const float* scores, int n, float max, LevelSums* result) {
  // A lane's 32-bit sums take this many weights of less than 2^21 without overflow.
  constexpr int kVectorsPerTotal = 2048;
  *result = LevelSums();
  const F32x16 row_max = Broadcast(max);
  for (int begin = 0; begin < n; begin += 16 * kVectorsPerTotal) {
    const int end = n - begin < 16 * kVectorsPerTotal ? n : begin + 16 * kVectorsPerTotal;
    Weight16 all = {BroadcastInt(0), BroadcastInt(0)};
    Weight16 level[kNumLevels];
    for (Weight16& sums : level) sums = all;
    for (int i = begin; i < end; i += 16) {
      const F32x16 d = LoadOrNever(scores + i, n - i) - row_max;
      const Weight16 w = WeightsOf(d);
      AddWeights(all, w);
      for (int k = kNumLevels - 1; k >= 0; --k) {
        const Mask16 above = LessEqual(Broadcast(kLevels[k]), d);
        const uint32_t bits = MaskBits(above);
        if (bits == 0) break;
        result->count[k] += __builtin_popcount(bits);
        AddWeights(level[k],
                   {Select(above, w.high, BroadcastInt(0)), Select(above, w.low, BroadcastInt(0))});
      }
    }
    result->total += TotalOf(all);
    for (int k = 0; k < kNumLevels; ++k) result->sum[k] += TotalOf(level[k]);
  }
}

inline int CollectAbove(const float* scores, int n, float max, float level, int32_t* ids,
                        float* values) {
  const F32x16 row_max = Broadcast(max);
  int count = 0;
  for (int i = 0; i < n; i += 16) {
    const F32x16 s = LoadOrNever(scores + i, n - i);
    uint32_t bits = MaskBits(LessEqual(Broadcast(level), s - row_max));
    if (n - i < 16) bits &= (1u << (n - i)) - 1u;
    for (; bits != 0; bits &= bits - 1) {
      ids[count] = i + __builtin_ctz(bits);
      values[count] = scores[ids[count]];
      ++count;
    }
  }
  return count;
}

inline void WeighCandidates(const float* values, int n, float max, uint64_t* weights) {
  for (int i = 0; i < n; i += 16) {
    const Weight16 w = WeightsOf(LoadOrNever(values + i, n - i) - Broadcast(max));
    int32_t high[16], low[16];
    StoreInt(high, w.high);
    StoreInt(low, w.low);
    for (int lane = 0; lane < 16 && i + lane < n; ++lane) {
      weights[i + lane] =
          (uint64_t{static_cast<uint32_t>(high[lane])} << 20) + static_cast<uint32_t>(low[lane]);
    }
  }
}

// The first two words of Philox4x32-10.
struct RandomWords {
  I32x16 first;
  I32x16 second;
};

QUIRE_INLINE RandomWords Philox(const DrawKey& key, I32x16 token_ids) {
  const I32x16 mul0 = BroadcastInt(static_cast<int32_t>(kPhiloxMul0));
  const I32x16 mul1 = BroadcastInt(static_cast<int32_t>(kPhiloxMul1));
  I32x16 c0 = token_ids;
  I32x16 c1 = BroadcastInt(key.position);
  I32x16 c2 = BroadcastInt(static_cast<int32_t>(key.purpose));
  I32x16 c3 = BroadcastInt(static_cast<int32_t>(key.choice));
  uint32_t k0 = static_cast<uint32_t>(key.seed);
  uint32_t k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const I32x16 high0 = MulHigh(mul0, c0);
    const I32x16 low0 = MulLow(mul0, c0);
    const I32x16 high1 = MulHigh(mul1, c2);
    const I32x16 low1 = MulLow(mul1, c2);
    c0 = high1 ^ c1 ^ BroadcastInt(static_cast<int32_t>(k0));
    c1 = low1;
    c2 = high0 ^ c3 ^ BroadcastInt(static_cast<int32_t>(k1));
    c3 = low0;
    k0 += kPhiloxWeyl0;
    k1 += kPhiloxWeyl1;
  }
  return {c0, c1};
}

// Standard Gumbel variables. w is uniform in (0, 1) with a relative resolution of 2^-24 down to
// 2^-48, so that the large values, which decide, are fine grained; -log(-log(1 - w)).
QUIRE_INLINE F32x16 GumbelOf(const RandomWords& words) {
  const F32x16 coarse = ToFloat(ShiftRight<8>(words.first));
  const F32x16 fine = ToFloat(ShiftRight<9>(words.second)) + Broadcast(0.5f);
  F32x16 w = Fma(fine, Broadcast(0x1p-23f), coarse) * Broadcast(0x1p-24f);
  w = Min(w, Broadcast(0x1.fffffep-1f));
  // log1p(-w): the logarithm of the rounded 1 - w, and what the rounding took.
  const F32x16 one = Broadcast(1.0f);
  const F32x16 u = one - w;
  const F32x16 exponential = (w - (one - u)) / u - Log16(u);
  return Zero16() - Log16(exponential);
}

inline int32_t GumbelArgMaxRow(const float* scores, int n, const DrawKey& key) {
  LaneBest best = NoBest();
  for (int i = 0; i < n; i += 16) {
    const I32x16 ids = Iota16() + BroadcastInt(i);
    Offer(best, LoadOrNever(scores + i, n - i) + GumbelOf(Philox(key, ids)), ids);
  }
  return LowestIdOfMax(best);
}

inline int32_t GumbelArgMaxOf(const float* values, const int32_t* token_ids, int n,
                              const DrawKey& key) {
  LaneBest best = NoBest();
  for (int i = 0; i < n; i += 16) {
    const I32x16 ids = LoadIntN(token_ids + i, n - i < 16 ? n - i : 16);
    Offer(best, LoadOrNever(values + i, n - i) + GumbelOf(Philox(key, ids)), ids);
  }
  return LowestIdOfMax(best);
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_SAMPLING_KERNELS_H_
