#include "kernels/cpu/weight_quantization.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/f16.h"
#include "kernels/cpu/reference/unpack.h"
#include "kernels/tensor.h"

namespace quire {
namespace {

// The row as a file would hold it, read back by the definition.
std::vector<float> Rounded(DType dtype, const std::vector<float>& x) {
  const DTypeInfo info = InfoOf(dtype);
  std::vector<uint8_t> bytes(x.size() / info.block_elems * info.block_bytes);
  QuantizeWeightRow(dtype, x.data(), static_cast<int64_t>(x.size()), bytes.data());
  std::vector<float> out(x.size());
  reference::Dequantize(
      {reinterpret_cast<const std::byte*>(bytes.data()), dtype, 1, static_cast<int64_t>(x.size())},
      0, out.data());
  return out;
}

// Integers up to 127 are multiples of the scale 1, so nothing is lost.
TEST(WeightQuantization, EightBitsHoldIntegersExactly) {
  std::vector<float> x(64);
  for (int i = 0; i < 64; ++i) x[i] = static_cast<float>(4 * i - 127);
  x[63] = 127;
  x[31] = -127;
  EXPECT_EQ(Rounded(DType::kQ8_0, x), x);
}

// From -8 to 7 times a power of two, with -8 the largest: its sign has the larger half.
TEST(WeightQuantization, FourBitsHoldSixteenMultiplesExactly) {
  for (const float unit : {0.25f, -0.25f}) {
    std::vector<float> x(32);
    for (int i = 0; i < 32; ++i) x[i] = unit * static_cast<float>(i % 16 - 8);
    EXPECT_EQ(Rounded(DType::kQ4_0, x), x);
  }
}

TEST(WeightQuantization, NoElementIsFurtherThanHalfAStepFromItsOwn) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> x(3200);
  for (float& value : x) value = normal(random);
  const std::vector<float> eight = Rounded(DType::kQ8_0, x);
  const std::vector<float> four = Rounded(DType::kQ4_0, x);
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    float largest = 0;
    for (size_t i = begin; i < begin + 32; ++i) {
      if (std::fabs(x[i]) > std::fabs(largest)) largest = x[i];
    }
    // Half a step, and what rounding the scale to fp16 (2^-11) costs the largest multiple.
    const float of_eight = std::fabs(largest) * (0.5f / 127 + 0x1p-11f);
    const float of_four = std::fabs(largest) * (0.5f / 8 + 0x1p-11f);
    for (size_t i = begin; i < begin + 32; ++i) {
      EXPECT_LE(std::fabs(eight[i] - x[i]), of_eight);
      // Seven steps is as far as the other sign goes.
      const bool clipped = x[i] / largest < -7.0f / 8;
      if (!clipped) {
        EXPECT_LE(std::fabs(four[i] - x[i]), of_four);
      }
    }
  }
}

TEST(WeightQuantization, ZerosStayZeros) {
  const std::vector<float> zeros(32, 0.0f);
  EXPECT_EQ(Rounded(DType::kQ8_0, zeros), zeros);
  EXPECT_EQ(Rounded(DType::kQ4_0, zeros), zeros);
}

// What is not a number must not become one.
TEST(WeightQuantization, GroupsThatAreNotFiniteStayNoticed) {
  for (const float odd :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x(64, 127.0f);
    x[40] = odd;
    for (const DType dtype : {DType::kQ8_0, DType::kQ4_0}) {
      const std::vector<float> rounded = Rounded(dtype, x);
      EXPECT_EQ(rounded[0], 127.0f);
      for (int i = 32; i < 64; ++i) EXPECT_TRUE(std::isnan(rounded[i]));
    }
  }
}

TEST(WeightQuantization, ScalesBeyondFp16BecomeItsLargest) {
  std::vector<float> x(32, 1e9f);
  EXPECT_EQ(Rounded(DType::kQ8_0, x)[0], 127 * 65504.0f);
}

// Against the machine-independent definition of fp16: every fp16 is its own nearest, and the middle
// between two neighbours goes to the even one.
TEST(ToF16, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float value = FromF16(static_cast<uint16_t>(bits));
    ASSERT_EQ(ToF16(value), bits);
    ASSERT_EQ(ToF16(-value), bits | 0x8000);
    const float next = bits == 0x7bff ? 65536.0f : FromF16(static_cast<uint16_t>(bits + 1));
    const float middle = value + (next - value) / 2;
    ASSERT_EQ(ToF16(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(ToF16(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(ToF16(std::nextafter(middle, 1e9f)), bits + 1) << bits;
  }
  EXPECT_EQ(ToF16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(ToF16(1e9f), 0x7c00);
}

}  // namespace
}  // namespace quire
