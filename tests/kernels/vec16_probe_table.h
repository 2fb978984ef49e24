#ifndef QUIRE_TESTS_KERNELS_VEC16_PROBE_TABLE_H_
#define QUIRE_TESTS_KERNELS_VEC16_PROBE_TABLE_H_

// The definition of the Vec16Probe of one instruction set.

#include "kernels/cpu/math.h"
#include "kernels/cpu/vec16.h"
#include "tests/kernels/vec16_probe.h"

namespace quire {
inline namespace QUIRE_ISA {

inline I32x16 OnesWhere(Mask16 mask) {
  // Both ways to look at a mask.
  const I32x16 selected = Select(mask, BroadcastInt(1), BroadcastInt(0));
  int32_t lanes[16];
  StoreInt(lanes, selected);
  for (int i = 0; i < 16; ++i) {
    if (lanes[i] != static_cast<int32_t>((MaskBits(mask) >> i) & 1)) lanes[i] = -1;
  }
  return LoadInt(lanes);
}
inline F32x16 FloatOnes(Mask16 mask) { return ToFloat(OnesWhere(mask)); }

#define QUIRE_UNARY(expression)                                                                   \
  {                                                                                               \
#expression, [](const float* a, float* out) { const F32x16 x = Load(a); Store(out, expression); } \
  }
#define QUIRE_BINARY(expression)                                     \
  {                                                                  \
#expression, [](const float* a, const float* b, float* out) {      \
     const F32x16 x = Load(a);                                        \
     const F32x16 y = Load(b);                                        \
     Store(out, expression);                                          \
   } \
  }
#define QUIRE_TERNARY(expression)                                                   \
  {                                                                                 \
#expression, [](const float* a, const float* b, const float* c, float* out) {     \
     const F32x16 x = Load(a);                                                       \
     const F32x16 y = Load(b);                                                       \
     const F32x16 z = Load(c);                                                       \
     Store(out, expression);                                                         \
   } \
  }
#define QUIRE_INT_BINARY(expression)                                     \
  {                                                                      \
#expression, [](const int32_t* a, const int32_t* b, int32_t* out) {    \
     [[maybe_unused]] const I32x16 x = LoadInt(a);                        \
     [[maybe_unused]] const I32x16 y = LoadInt(b);                        \
     StoreInt(out, expression);                                           \
   } \
  }

// RoundToInt and TruncateToInt are asked for what they promise: less than 2^31.
inline F32x16 Small(F32x16 x) {
  const F32x16 bounded = Max(Min(x, Broadcast(1e9f)), Broadcast(-1e9f));
  return Select(IsNan(x), Zero16(), bounded);
}

constexpr Vec16Probe::Unary kUnary[] = {
    QUIRE_UNARY(Sqrt(x)),
    QUIRE_UNARY(ToFloat(RoundToInt(Small(x)))),
    QUIRE_UNARY(ToFloat(TruncateToInt(Small(x)))),
    QUIRE_UNARY(FloatOnes(IsNan(x))),
    QUIRE_UNARY(FloatOnes(IsNotFinite(x))),
    QUIRE_UNARY(FloatOnes(FirstN(5) & Equal(x, x))),
};
constexpr Vec16Probe::Binary kBinary[] = {
    QUIRE_BINARY(x + y),
    QUIRE_BINARY(x - y),
    QUIRE_BINARY(x* y),
    QUIRE_BINARY(x / y),
    QUIRE_BINARY(Max(x, y)),
    QUIRE_BINARY(Min(x, y)),
    QUIRE_BINARY(FloatOnes(Less(x, y))),
    QUIRE_BINARY(FloatOnes(LessEqual(x, y))),
    QUIRE_BINARY(FloatOnes(Equal(x, y))),
    QUIRE_BINARY(FloatOnes(NotEqual(x, y))),
    QUIRE_BINARY(FloatOnes(Less(x, y) & Less(Zero16(), x))),
    QUIRE_BINARY(FloatOnes(Less(x, y) | Less(Zero16(), x))),
};
constexpr Vec16Probe::Ternary kTernary[] = {
    QUIRE_TERNARY(Fma(x, y, z)),
    QUIRE_TERNARY(NegFma(x, y, z)),
    QUIRE_TERNARY(Select(Less(x, y), y, z)),
};
QUIRE_INLINE I32x16 ThroughBytes(I32x16 x) {
  int8_t bytes[16];
  StoreI8(bytes, x);
  return LoadI8(bytes);
}

constexpr Vec16Probe::IntBinary kIntBinary[] = {
    QUIRE_INT_BINARY(x + y),
    QUIRE_INT_BINARY(x - y),
    QUIRE_INT_BINARY(x& y),
    QUIRE_INT_BINARY(x | y),
    QUIRE_INT_BINARY(x ^ y),
    QUIRE_INT_BINARY(MulLow(x, y)),
    QUIRE_INT_BINARY(MulHigh(x, y)),
    QUIRE_INT_BINARY(ShiftLeft<7>(x)),
    QUIRE_INT_BINARY(ShiftRight<7>(x)),
    QUIRE_INT_BINARY(ShiftRightSigned<7>(x)),
    QUIRE_INT_BINARY(OnesWhere(LessInt(x, y))),
    QUIRE_INT_BINARY(OnesWhere(EqualInt(x, y))),
    QUIRE_INT_BINARY(Iota16()),
    QUIRE_INT_BINARY(LoadI8(reinterpret_cast<const int8_t*>(a))),
    QUIRE_INT_BINARY(LoadU8(reinterpret_cast<const uint8_t*>(a))),
    QUIRE_INT_BINARY(ThroughBytes(ShiftRightSigned<24>(x))),
    QUIRE_INT_BINARY(BroadcastInt(SumLanesInt(x))),
};

inline void CopyFloats(const float* a, int n, float* out) { StoreN(out, LoadN(a, n), n); }
inline void CopyInts(const int32_t* a, int n, int32_t* out) { StoreIntN(out, LoadIntN(a, n), n); }
inline void AddPairs(const uint16_t* a, const uint16_t* b, float* acc) {
  const I32x16 pairs_a = LoadInt(reinterpret_cast<const int32_t*>(a));
  const I32x16 pairs_b = LoadInt(reinterpret_cast<const int32_t*>(b));
  Store(acc, FmaPairs(Load(acc), pairs_a, pairs_b));
}

extern const Vec16Probe kVec16Probe;
const Vec16Probe kVec16Probe = {
    .unary = kUnary,
    .num_unary = sizeof(kUnary) / sizeof(kUnary[0]),
    .binary = kBinary,
    .num_binary = sizeof(kBinary) / sizeof(kBinary[0]),
    .ternary = kTernary,
    .num_ternary = sizeof(kTernary) / sizeof(kTernary[0]),
    .int_binary = kIntBinary,
    .num_int_binary = sizeof(kIntBinary) / sizeof(kIntBinary[0]),
    .exp = [](const float* a, float* out) { Store(out, Exp16(Load(a))); },
    .exp_of_negative = [](const float* a, float* out) { Store(out, ExpOfNegative16(Load(a))); },
    .log = [](const float* a, float* out) { Store(out, Log16(Load(a))); },
    .silu = [](const float* a, float* out) { Store(out, Silu16(Load(a))); },
    .store_bf16 =
        [](const float* a, int n, uint16_t* out) {
          n == 16 ? StoreBf16(out, Load(a)) : StoreBf16N(out, Load(a), n);
        },
    .bf16_bits = [](const float* a, int32_t* out) { StoreInt(out, Bf16Bits(Load(a))); },
    .load_bf16 = [](const uint16_t* a, int n,
                    float* out) { Store(out, n == 16 ? LoadBf16(a) : LoadBf16N(a, n)); },
    .load_f16 = [](const uint16_t* a, float* out) { Store(out, LoadF16(a)); },
    .copy_floats = CopyFloats,
    .copy_ints = CopyInts,
    .sum_lanes = [](const float* a) { return SumLanes(Load(a)); },
    .max_lanes = [](const float* a) { return MaxLanes(Load(a)); },
    .fma_pairs = AddPairs,
};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_VEC16_PROBE_TABLE_H_
