#include "kernels/cpu/vec16.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/f16.h"
#include "kernels/cpu/reference/math.h"
#include "tests/kernels/bits.h"
#include "tests/kernels/vec16_probe.h"

namespace quire {

// Defined by vec16_probe_<isa>.cc.
namespace isa_reference {
extern const Vec16Probe kVec16Probe;
}
namespace isa_avx2 {
extern const Vec16Probe kVec16Probe;
}
namespace isa_avx512 {
extern const Vec16Probe kVec16Probe;
}
namespace isa_avx512bf16 {
extern const Vec16Probe kVec16Probe;
}

namespace {

const Vec16Probe& ProbeFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kReference:
      break;
    case CpuIsa::kAvx2:
      return isa_avx2::kVec16Probe;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
      return isa_avx512::kVec16Probe;
    case CpuIsa::kAvx512Bf16:
    case CpuIsa::kAmx:
      return isa_avx512bf16::kVec16Probe;
  }
  return isa_reference::kVec16Probe;
}

class Vec16Test : public IsaTest {
 protected:
  const Vec16Probe& probe() const { return ProbeFor(GetParam()); }
  // The array of 16, which says lane by lane what is meant.
  const Vec16Probe& plain() const { return ProbeFor(CpuIsa::kReference); }

  std::vector<float> Floats16() { return RandomFloats(16, Values::kSpecial, random_); }

  std::mt19937 random_{1};
};

QUIRE_FOR_EACH_ISA(Vec16Test);

TEST_P(Vec16Test, FloatOperationsEqualThoseOfTheArray) {
  std::vector<float> actual(16), expected(16);
  for (int round = 0; round < 2000; ++round) {
    const auto a = Floats16(), b = Floats16(), c = Floats16();
    for (int i = 0; i < probe().num_unary; ++i) {
      probe().unary[i].run(a.data(), actual.data());
      plain().unary[i].run(a.data(), expected.data());
      ASSERT_TRUE(SameBits(actual, expected)) << probe().unary[i].name;
    }
    for (int i = 0; i < probe().num_binary; ++i) {
      probe().binary[i].run(a.data(), b.data(), actual.data());
      plain().binary[i].run(a.data(), b.data(), expected.data());
      ASSERT_TRUE(SameBits(actual, expected)) << probe().binary[i].name;
    }
    for (int i = 0; i < probe().num_ternary; ++i) {
      probe().ternary[i].run(a.data(), b.data(), c.data(), actual.data());
      plain().ternary[i].run(a.data(), b.data(), c.data(), expected.data());
      ASSERT_TRUE(SameBits(actual, expected)) << probe().ternary[i].name;
    }
    ASSERT_TRUE(SameBits(probe().sum_lanes(a.data()), plain().sum_lanes(a.data())));
    const auto finite = RandomFloats(16, Values::kUsual, random_);
    ASSERT_EQ(probe().max_lanes(finite.data()), plain().max_lanes(finite.data()));
  }
}

TEST_P(Vec16Test, IntegerOperationsEqualThoseOfTheArray) {
  std::vector<int32_t> a(16), b(16), actual(16), expected(16);
  for (int round = 0; round < 2000; ++round) {
    for (int i = 0; i < 16; ++i) {
      a[i] = static_cast<int32_t>(random_());
      b[i] = random_() % 4 == 0 ? a[i] : static_cast<int32_t>(random_());
    }
    for (int i = 0; i < probe().num_int_binary; ++i) {
      probe().int_binary[i].run(a.data(), b.data(), actual.data());
      plain().int_binary[i].run(a.data(), b.data(), expected.data());
      ASSERT_EQ(actual, expected) << probe().int_binary[i].name;
    }
  }
}

TEST_P(Vec16Test, PartsOfAVectorTouchNothingElse) {
  for (int n = 0; n <= 16; ++n) {
    const auto a = RandomFloats(16, Values::kUsual, random_);
    std::vector<float> out(17, 7.0f);
    probe().copy_floats(a.data(), n, out.data());
    std::vector<int32_t> ints(16), int_out(17, 7);
    for (int i = 0; i < 16; ++i) ints[i] = i + 100;
    probe().copy_ints(ints.data(), n, int_out.data());
    std::vector<uint16_t> rounded(17, 7);
    probe().store_bf16(a.data(), n, rounded.data());
    std::vector<float> widened(16);
    probe().load_bf16(rounded.data(), n, widened.data());
    for (int i = 0; i < 17; ++i) {
      EXPECT_EQ(out[i], i < n ? a[i] : 7.0f);
      EXPECT_EQ(int_out[i], i < n ? ints[i] : 7);
      EXPECT_EQ(rounded[i], i < n ? RneBf16(a[i]) : 7);
    }
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(widened[i], i < n ? FromBf16(rounded[i]) : 0.0f);
    }
  }
}

TEST_P(Vec16Test, RoundingToBf16IsTheOneOfTheScalarDefinition) {
  // Every upper half with the lower halves at which rounding turns.
  static constexpr uint32_t kLower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1234, 0xc000};
  for (uint32_t upper = 0; upper < 0x10000; upper += 2) {
    float a[16];
    uint16_t actual[16];
    int32_t bits[16];
    for (int i = 0; i < 16; ++i) a[i] = FloatFromBits(((upper + i / 8) << 16) | kLower[i % 8]);
    probe().store_bf16(a, 16, actual);
    probe().bf16_bits(a, bits);
    for (int i = 0; i < 16; ++i) {
      ASSERT_EQ(actual[i], RneBf16(a[i])) << std::hex << BitsOfFloat(a[i]);
      ASSERT_EQ(bits[i], actual[i]);
    }
  }
}

TEST_P(Vec16Test, HalvesWidenExactly) {
  for (uint32_t half = 0; half < 0x10000; half += 16) {
    uint16_t a[16];
    float actual[16];
    for (int i = 0; i < 16; ++i) a[i] = static_cast<uint16_t>(half + i);
    probe().load_f16(a, actual);
    for (int i = 0; i < 16; ++i) {
      ASSERT_TRUE(SameBits(actual[i], FromF16(a[i]))) << a[i];
      const int exponent = (a[i] >> 10) & 31;
      if (exponent == 31) continue;
      const double magnitude = exponent == 0 ? std::ldexp(a[i] & 1023, -24)
                                             : std::ldexp(1024 + (a[i] & 1023), exponent - 25);
      ASSERT_EQ(actual[i], (a[i] & 0x8000) ? -magnitude : magnitude) << a[i];
    }
  }
}

TEST_P(Vec16Test, PairsOfBf16AreAddedOddFirst) {
  for (int round = 0; round < 2000; ++round) {
    uint16_t a[32], b[32];
    for (uint16_t& x : a) x = RneBf16(RandomFloat(Values::kSpecial, random_));
    for (uint16_t& x : b) x = RneBf16(RandomFloat(Values::kSpecial, random_));
    std::vector<float> acc = RandomFloats(16, Values::kSpecial, random_), expected(16);
    for (int i = 0; i < 16; ++i) {
      const float odd = std::fma(FromBf16(a[2 * i + 1]), FromBf16(b[2 * i + 1]), acc[i]);
      expected[i] = std::fma(FromBf16(a[2 * i]), FromBf16(b[2 * i]), odd);
    }
    probe().fma_pairs(a, b, acc.data());
    ASSERT_TRUE(SameBits(acc, expected));
  }
}

// Calls check(16 floats) over a walk through all bit patterns from `first` to `last`.
template <typename Check>
void WalkFloats(uint32_t first, uint32_t last, uint32_t stride, Check check) {
  uint32_t bits = first;
  while (last - bits > 16 * stride) {
    float a[16];
    for (int i = 0; i < 16; ++i, bits += stride) a[i] = FloatFromBits(bits);
    check(a);
  }
}

TEST_P(Vec16Test, ExpLogAndSiluEqualTheirScalarDefinitions) {
  const auto check = [&](auto* run, auto* scalar, const float* a) {
    float actual[16];
    run(a, actual);
    for (int i = 0; i < 16; ++i) {
      ASSERT_TRUE(SameBits(actual[i], scalar(a[i]))) << std::hexfloat << a[i];
    }
  };
  constexpr uint32_t kStride = 4099;  // prime: all low bits occur
  WalkFloats(0, 0xffffffffu, kStride, [&](const float* a) {
    check(probe().exp, reference::Exp, a);
    check(probe().silu, reference::Silu, a);
  });
  // Whatever is not positive, and NaNs.
  WalkFloats(0x80000000u, 0xffffffffu, kStride,
             [&](const float* a) { check(probe().exp_of_negative, reference::Exp, a); });
  WalkFloats(0x7f800001u, 0x7fffffffu, kStride,
             [&](const float* a) { check(probe().exp_of_negative, reference::Exp, a); });
  WalkFloats(0x00800000u, 0x7f800000u, kStride,
             [&](const float* a) { check(probe().log, reference::Log, a); });
}

// Distance of `actual` from the exact value, in units of the last place of the latter.
double UlpError(float actual, double exact) {
  const float rounded = static_cast<float>(exact);
  const double ulp = std::ldexp(1.0, std::ilogb(rounded) - 23);
  return std::abs(actual - exact) / ulp;
}

TEST(Math, ExpAndLogAreWithinOneUlp) {
  ScopedFlushDenormals flush;
  double worst_exp = 0, worst_log = 0;
  for (float x = -87.3f; x < 88.7f; x += 0.00137f) {
    worst_exp = std::max(worst_exp, UlpError(reference::Exp(x), std::exp(double{x})));
  }
  for (uint32_t bits = 0x00800000u; bits < 0x7f800000u; bits += 1021) {
    const float x = FloatFromBits(bits);
    if (x != 1) worst_log = std::max(worst_log, UlpError(reference::Log(x), std::log(double{x})));
  }
  EXPECT_LT(worst_exp, 1.0);
  EXPECT_LT(worst_log, 1.0);
  RecordProperty("exp_ulp", std::to_string(worst_exp));
  RecordProperty("log_ulp", std::to_string(worst_log));
}

TEST(Math, ExpIsExactAtItsEnds) {
  EXPECT_EQ(reference::Exp(0.0f), 1.0f);
  EXPECT_EQ(reference::Exp(-0.0f), 1.0f);
  EXPECT_EQ(reference::Exp(-INFINITY), 0.0f);
  EXPECT_EQ(reference::Exp(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(reference::Exp(NAN)));
  EXPECT_EQ(reference::Log(1.0f), 0.0f);
}

}  // namespace
}  // namespace quire
