#ifndef QUIRE_KERNELS_CPU_GUMBEL_H_
#define QUIRE_KERNELS_CPU_GUMBEL_H_

// Random numbers of tokens, and the draw by them: the argmax of score + Gumbel variable.

#include <stdint.h>

#include "kernels/cpu/math.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/sampling_kernels.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

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

// Uniform in (0, 1) with a relative resolution of 2^-24 down to 2^-48: small ones make the large
// Gumbel variables, which decide, so those are fine grained.
QUIRE_INLINE F32x16 UniformOf(const RandomWords& words) {
  const F32x16 coarse = ToFloat(ShiftRight<8>(words.first));
  const F32x16 fine = ToFloat(ShiftRight<9>(words.second)) + Broadcast(0.5f);
  const F32x16 w = Fma(fine, Broadcast(0x1p-23f), coarse) * Broadcast(0x1p-24f);
  return Min(w, Broadcast(0x1.fffffep-1f));
}

// Standard Gumbel variables: -log(-log(1 - w)).
QUIRE_INLINE F32x16 GumbelOf(F32x16 w) {
  // log1p(-w): the logarithm of the rounded 1 - w, and what the rounding took.
  const F32x16 one = Broadcast(1.0f);
  const F32x16 u = one - w;
  const F32x16 exponential = (w - (one - u)) / u - Log16(u);
  return Zero16() - Log16(exponential);
}

// A little more than GumbelOf(w), for next to nothing. -log(1 - w) is at least w, and log2(w) at
// least its exponent and mantissa read as one number; the rest is for rounding.
QUIRE_INLINE F32x16 GumbelBound(F32x16 w) {
  constexpr float kLn2 = 0x1.62e43p-1f;
  return Fma(ToFloat(AsInt(w)), Broadcast(-kLn2 * 0x1p-23f), Broadcast(127 * kLn2 + 1e-3f));
}

// Finds the largest value + Gumbel variable of tokens that come in ascending order of ids.
class GumbelRace {
 public:
  explicit GumbelRace(const DrawKey& key) : key_(key) {}

  QUIRE_INLINE void Enter(F32x16 values, I32x16 ids) {
    const F32x16 w = UniformOf(Philox(key_, ids));
    // Few tokens need the two logarithms. Sums round monotonically, so a bound on the variable
    // bounds the sum; a tie with an earlier token is lost.
    if (!Any(Less(lead_, values + GumbelBound(w)))) return;
    Offer(best_, values + GumbelOf(w), ids);
    lead_ = Broadcast(MaxLanes(best_.value));
  }
  int32_t Winner() const { return LowestIdOfMax(best_); }

 private:
  const DrawKey key_;
  LaneBest best_ = NoBest();
  F32x16 lead_ = NoBest().value;
};

inline int32_t GumbelArgMaxRow(const float* scores, int n, const DrawKey& key) {
  GumbelRace race(key);
  for (int i = 0; i < n; i += 16) {
    race.Enter(LoadOrNever(scores + i, n - i), Iota16() + BroadcastInt(i));
  }
  return race.Winner();
}

inline int32_t GumbelArgMaxOf(const float* values, const int32_t* token_ids, int n,
                              const DrawKey& key) {
  GumbelRace race(key);
  for (int i = 0; i < n; i += 16) {
    race.Enter(LoadOrNever(values + i, n - i), LoadIntN(token_ids + i, n - i < 16 ? n - i : 16));
  }
  return race.Winner();
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GUMBEL_H_
