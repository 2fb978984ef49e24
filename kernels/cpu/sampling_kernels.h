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

// The best value above -infinity seen by each lane, and its id; the earliest among equals.
struct LaneBest {
  F32x16 value;
  I32x16 id;
};

QUIRE_INLINE LaneBest NoBest() {
  return {AsFloat(BroadcastInt(static_cast<int32_t>(0xff800000u))), BroadcastInt(-1)};
}

QUIRE_INLINE void Offer(LaneBest& best, F32x16 value, I32x16 id) {
  const Mask16 better = Less(best.value, value);
  best.value = Select(better, value, best.value);
  best.id = Select(better, id, best.id);
}

// {1, 2, 4, ..., 2^15}
QUIRE_INLINE I32x16 LaneBits16() {
  static const int32_t kBits[16] = {1,       2,       4,       8,      16,      32,
                                    64,      128,     1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                    1 << 12, 1 << 13, 1 << 14, 1 << 15};
  return LoadInt(kBits);
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

inline void MaskRow(const float* logits, int n, const uint32_t* allowed, float* out) {
  const I32x16 bit_of_lane = LaneBits16();
  for (int i = 0; i < n; i += 16) {
    const int32_t bits = static_cast<int32_t>(allowed[i / 32] >> (i % 32));
    const Mask16 clear = EqualInt(BroadcastInt(bits) & bit_of_lane, BroadcastInt(0));
    const F32x16 x = Select(clear, NoBest().value, LoadOrNever(logits + i, n - i));
    if (n - i >= 16) {
      Store(out + i, x);
    } else {
      StoreN(out + i, x, n - i);
    }
  }
}

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

// By two Sum16 of the row, elements that are not finite as zeros.
inline void SpreadOfRow(const float* scores, int n, Spread* result) {
  F32x16 sum = Zero16();
  int count = 0;
  for (int i = 0; i < n; i += 16) {
    const F32x16 s = LoadOrNever(scores + i, n - i);
    const Mask16 bad = IsNotFinite(s);
    sum = sum + Select(bad, Zero16(), s);
    count += 16 - __builtin_popcount(MaskBits(bad));
  }
  result->mean = SumLanes(sum) / static_cast<float>(count);
  const F32x16 mean = Broadcast(result->mean);
  F32x16 squares = Zero16();
  for (int i = 0; i < n; i += 16) {
    const F32x16 s = LoadOrNever(scores + i, n - i);
    const F32x16 x = s - mean;
    squares = squares + Select(IsNotFinite(s), Zero16(), x * x);
  }
  result->deviation = __builtin_sqrtf(SumLanes(squares) / static_cast<float>(count));
}

// floor(x * 2^40) = high * 2^20 + low, both below 2^21.
struct Weight16 {
  I32x16 high;
  I32x16 low;
};

// Of x in [0, 1]; of 0 where x is anything else.
QUIRE_INLINE Weight16 FixedPoint(F32x16 x) {
  x = Select(LessEqual(x, Broadcast(1.0f)), x, Zero16());
  const F32x16 scaled = x * Broadcast(0x1p20f);
  const I32x16 high = TruncateToInt(scaled);
  const F32x16 rest = scaled - ToFloat(high);
  return {high, TruncateToInt(rest * Broadcast(0x1p20f))};
}

// floor(exp(d) * 2^40), d <= 0; 0 where d is a NaN.
QUIRE_INLINE Weight16 WeightsOf(F32x16 d) { return FixedPoint(Exp16(d)); }

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

// A lane's 32-bit sums take this many weights of less than 2^21 without overflow.
constexpr int kVectorsPerTotal = 2048;

inline void SumWeights(const float* scores, int n, float max, WeightSums* result) {
  *result = WeightSums();
  const F32x16 row_max = Broadcast(max);
  for (int begin = 0; begin < n; begin += 16 * kVectorsPerTotal) {
    const int end = n - begin < 16 * kVectorsPerTotal ? n : begin + 16 * kVectorsPerTotal;
    Weight16 total = {BroadcastInt(0), BroadcastInt(0)};
    Weight16 depth = total;
    for (int i = begin; i < end; i += 16) {
      const F32x16 d = LoadOrNever(scores + i, n - i) - row_max;
      const F32x16 p = Exp16(d);
      AddWeights(total, FixedPoint(p));
      AddWeights(depth, FixedPoint(p * (Zero16() - d)));
    }
    result->total += TotalOf(total);
    result->depth += TotalOf(depth);
  }
}

inline void CountLevels(const float* scores, int n, float max, LevelCounts* result) {
  *result = LevelCounts();
  const F32x16 row_max = Broadcast(max);
  for (int i = 0; i < n; i += 16) {
    const F32x16 distance = Abs(LoadOrNever(scores + i, n - i) - row_max);
    for (int k = kNumLevels - 1; k >= 0; --k) {
      const uint32_t bits = MaskBits(LessEqual(distance, Broadcast(kLevels[k])));
      if (bits == 0) break;
      result->count[k] += __builtin_popcount(bits);
    }
  }
}

inline void SumLevels(const float* scores, int n, float max, float center, LevelSums* result) {
  *result = LevelSums();
  const F32x16 row_max = Broadcast(max);
  const F32x16 middle = Broadcast(center);
  for (int begin = 0; begin < n; begin += 16 * kVectorsPerTotal) {
    const int end = n - begin < 16 * kVectorsPerTotal ? n : begin + 16 * kVectorsPerTotal;
    Weight16 all = {BroadcastInt(0), BroadcastInt(0)};
    Weight16 level[kNumLevels];
    for (Weight16& sums : level) sums = all;
    for (int i = begin; i < end; i += 16) {
      const F32x16 d = LoadOrNever(scores + i, n - i) - row_max;
      const Weight16 w = WeightsOf(d);
      AddWeights(all, w);
      const F32x16 distance = Abs(d - middle);
      for (int k = kNumLevels - 1; k >= 0; --k) {
        const Mask16 near = LessEqual(distance, Broadcast(kLevels[k]));
        if (!Any(near)) break;
        AddWeights(level[k],
                   {Select(near, w.high, BroadcastInt(0)), Select(near, w.low, BroadcastInt(0))});
      }
    }
    result->total += TotalOf(all);
    for (int k = 0; k < kNumLevels; ++k) result->sum[k] += TotalOf(level[k]);
  }
}

inline int CollectNear(const float* scores, int n, float max, float center, float distance,
                       int32_t* ids, float* values) {
  const F32x16 row_max = Broadcast(max);
  const F32x16 middle = Broadcast(center);
  int count = 0;
  for (int i = 0; i < n; i += 16) {
    const F32x16 d = LoadOrNever(scores + i, n - i) - row_max;
    uint32_t bits = MaskBits(LessEqual(Abs(d - middle), Broadcast(distance)));
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

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_SAMPLING_KERNELS_H_
