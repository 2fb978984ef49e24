#include "kernels/cpu/ops.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/reference/norm.h"
#include "kernels/cpu/reference/rope.h"
#include "kernels/cpu/reference/unpack.h"
#include "kernels/cpu/rope_table.h"
#include "tests/kernels/bits.h"

namespace quire {
namespace {

constexpr uint16_t kUntouched = 0x1234;

class OpsTest : public IsaTest {
 protected:
  const CpuOps& ops() const { return CpuOpsFor(GetParam()); }

  std::mt19937 random_{1};
};

QUIRE_FOR_EACH_ISA(OpsTest);

TEST_P(OpsTest, RmsNormEqualsItsDefinition) {
  for (Values values : {Values::kUsual, Values::kSpecial}) {
    for (int cols : {1, 2, 15, 16, 17, 31, 33, 90, 576, 2047}) {
      const auto x = RandomFloats(cols, values, random_);
      const auto weight = RandomFloats(cols, values, random_);
      std::vector<uint16_t> actual(cols + 2, kUntouched), expected(cols);
      ops().rms_norm(x.data(), weight.data(), cols, 1e-5f, actual.data());
      reference::RmsNorm(x.data(), weight.data(), cols, 1e-5f, expected.data());
      EXPECT_EQ(actual[cols], cols % 2 == 0 ? kUntouched : 0) << "an odd row is padded";
      EXPECT_EQ(actual[cols + 1], kUntouched);
      actual.resize(cols);
      EXPECT_TRUE(SameBits(actual, expected)) << cols;
    }
  }
}

TEST_P(OpsTest, NormsOfHeadsEqualTheirDefinitionInPlaceToo) {
  for (Values values : {Values::kUsual, Values::kSpecial}) {
    for (int cols : {2, 15, 16, 20, 32, 80, 128}) {
      auto x = RandomFloats(cols, values, random_);
      const auto weight = RandomFloats(cols, values, random_);
      std::vector<float> actual(cols + 1, 5.0f), expected(cols);
      ops().rms_norm_head(x.data(), weight.data(), cols, 1e-6f, actual.data());
      reference::RmsNormHead(x.data(), weight.data(), cols, 1e-6f, expected.data());
      EXPECT_EQ(actual[cols], 5.0f) << "what follows is not touched";
      actual.resize(cols);
      EXPECT_TRUE(SameBits(actual, expected)) << cols;
      ops().rms_norm_head(x.data(), weight.data(), cols, 1e-6f, x.data());
      EXPECT_TRUE(SameBits(x, expected)) << cols;
    }
  }
}

TEST_P(OpsTest, NotFiniteValuesAreFoundWhereverTheyAre) {
  for (int size : {1, 15, 16, 17, 576}) {
    std::vector<float> x = RandomFloats(size, Values::kUsual, random_);
    x[0] = 3.4028235e38f;
    EXPECT_TRUE(ops().all_finite(x.data(), size));
    for (int i = 0; i < size; ++i) {
      for (float bad : {INFINITY, -INFINITY, NAN}) {
        std::vector<float> broken = x;
        broken[i] = bad;
        EXPECT_FALSE(ops().all_finite(broken.data(), size));
      }
    }
  }
}

TEST_P(OpsTest, RotationEqualsItsDefinition) {
  ThreadPool pool(1);
  for (Values values : {Values::kUsual, Values::kSpecial}) {
    for (int head_dim : {2, 20, 32, 64, 80, 128}) {
      std::vector<double> inv_freq;
      for (int i = 0; i < head_dim / 2; ++i) {
        inv_freq.push_back(std::pow(10000.0, -2.0 * i / head_dim));
      }
      const RopeTable table(inv_freq, 1.5, 100, &pool);
      const int padded = (head_dim + 31) / 32 * 32;
      for (int position : {0, 1, 99}) {
        const auto x = RandomFloats(head_dim, values, random_);
        std::vector<uint16_t> actual(padded, kUntouched), expected(padded, 0);
        ops().rotate_head(x.data(), table.Cos(position), table.Sin(position), head_dim, padded,
                          actual.data());
        reference::RotateHead(x.data(), position, inv_freq.data(), 1.5, head_dim, expected.data());
        EXPECT_TRUE(SameBits(actual, expected)) << head_dim << " at " << position;
      }
    }
  }
}

TEST_P(OpsTest, RowsRoundAndWiden) {
  for (int cols : {1, 16, 20, 64, 67}) {
    const auto x = RandomFloats(cols, Values::kSpecial, random_);
    std::vector<uint16_t> actual(cols + 9, kUntouched), expected(cols + 9, 0);
    ops().round_row(x.data(), cols, cols + 9, actual.data());
    for (int i = 0; i < cols; ++i) expected[i] = RneBf16(x[i]);
    EXPECT_TRUE(SameBits(actual, expected));
    std::vector<float> widened(cols), exact;
    ops().widen_row(actual.data(), cols, widened.data());
    for (int i = 0; i < cols; ++i) exact.push_back(FromBf16(expected[i]));
    EXPECT_TRUE(SameBits(widened, exact));
  }
}

TEST_P(OpsTest, UnpackingEqualsItsDefinition) {
  const struct {
    DType dtype;
    UnpackRowFn unpack;
  } formats[] = {{DType::kF32, ops().unpack_f32},   {DType::kF16, ops().unpack_f16},
                 {DType::kBF16, ops().unpack_bf16}, {DType::kQ4_0, ops().unpack_q4_0},
                 {DType::kQ4_1, ops().unpack_q4_1}, {DType::kQ5_0, ops().unpack_q5_0},
                 {DType::kQ5_1, ops().unpack_q5_1}, {DType::kQ8_0, ops().unpack_q8_0},
                 {DType::kQ4_K, ops().unpack_q4_k}, {DType::kQ5_K, ops().unpack_q5_k},
                 {DType::kQ6_K, ops().unpack_q6_k}};
  for (const auto& format : formats) {
    const DTypeInfo info = InfoOf(format.dtype);
    for (int blocks : {1, 2, 15, 16, 17, 64, 577}) {
      // Random bytes: scales and values of all kinds, NaNs and denormals too. Odd addresses.
      std::vector<uint8_t> bytes(1 + blocks * info.block_bytes);
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
      const int64_t cols = int64_t{blocks} * info.block_elems;
      const WeightView view = {reinterpret_cast<const std::byte*>(bytes.data() + 1), format.dtype,
                               1, cols};
      std::vector<uint16_t> actual(cols + 1, kUntouched), expected(cols);
      format.unpack(bytes.data() + 1, cols, actual.data());
      reference::UnpackRow(view, 0, expected.data());
      EXPECT_EQ(actual[cols], kUntouched);
      actual.resize(cols);
      EXPECT_TRUE(SameBits(actual, expected)) << info.name << " " << blocks;
    }
  }
}

TEST_P(OpsTest, UnpackingOfEightBitFloatsEqualsItsDefinition) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 256 + 7; ++i) bytes.push_back(static_cast<uint8_t>(i));
  for (const float scale : {1.0f, -0.37f, 1e-37f, 3e38f, 0.0f, INFINITY}) {
    for (const int64_t cols : {1, 15, 16, 17, 256, 263}) {
      const WeightView view = {reinterpret_cast<const std::byte*>(bytes.data()),
                               DType::kF8E4M3,
                               1,
                               cols,
                               {&scale, 1, cols}};
      std::vector<uint16_t> actual(cols + 1, kUntouched), expected(cols);
      ops().unpack_f8_e4m3(bytes.data(), cols, scale, actual.data());
      reference::UnpackRow(view, 0, expected.data());
      EXPECT_EQ(actual[cols], kUntouched);
      actual.resize(cols);
      EXPECT_TRUE(SameBits(actual, expected)) << cols << " times " << scale;
    }
  }
}

// https://arxiv.org/abs/2209.05433, table 1: the smallest and largest of each kind.
TEST(Unpack, EightBitFloatsAreThoseOfThePaper) {
  const std::pair<int, float> expected[] = {
      {0x00, 0.0f},    {0x80, -0.0f},   {0x01, 0x1p-9f}, {0x07, 0.875f * 0x1p-6f},
      {0x08, 0x1p-6f}, {0x38, 1.0f},    {0x3c, 1.5f},    {0xc0, -2.0f},
      {0x7e, 448.0f},  {0xfe, -448.0f}, {0x77, 240.0f},  {0x78, 256.0f}};
  for (const auto& [bits, value] : expected) {
    const auto byte = static_cast<std::byte>(bits);
    float found = 0;
    reference::Dequantize({&byte, DType::kF8E4M3, 1, 1}, 0, &found);
    EXPECT_EQ(found, value) << bits;
  }
  for (const int bits : {0x7f, 0xff}) {
    const auto byte = static_cast<std::byte>(bits);
    float found = 0;
    reference::Dequantize({&byte, DType::kF8E4M3, 1, 1}, 0, &found);
    EXPECT_TRUE(std::isnan(found)) << bits;
  }
}

TEST(Unpack, DequantisesAsTheFormatSays) {
  // Q4_1: scale 0.5, minimum -1, then nibbles; element 0 is the low half of byte 0, element 16 its
  // high half.
  std::vector<uint8_t> block = {0x00, 0x38, 0x00, 0xbc};
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<uint8_t>(i | ((15 - i) << 4)));
  const WeightView view = {reinterpret_cast<const std::byte*>(block.data()), DType::kQ4_1, 1, 32};
  std::vector<float> values(32);
  reference::Dequantize(view, 0, values.data());
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(values[i], 0.5f * i - 1);
    EXPECT_EQ(values[16 + i], 0.5f * (15 - i) - 1);
  }
}

}  // namespace
}  // namespace quire
