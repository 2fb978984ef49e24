#include "kernels/cpu/weight_store.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/unpack.h"
#include "kernels/cpu/weight_format.h"
#include "kernels/cpu/weight_quantization.h"
#include "tests/kernels/bits.h"
#include "tests/kernels/quantized_weight.h"

namespace quire {
namespace {

// A weight of random bytes that are sane numbers in every format.
struct File {
  File(DType dtype, int64_t rows, int64_t cols, uint32_t seed) {
    const DTypeInfo info = InfoOf(dtype);
    bytes.resize(rows * cols / info.block_elems * info.block_bytes);
    std::mt19937 random(seed);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    view = {reinterpret_cast<const std::byte*>(bytes.data()), dtype, rows, cols};
  }
  std::vector<uint16_t> Row(int64_t row) const {
    std::vector<uint16_t> out(view.cols);
    reference::UnpackRow(view, row, out.data());
    return out;
  }

  std::vector<uint8_t> bytes;
  WeightView view;
};

// Counted through the panels, which alternate where there are gate and up.
std::vector<uint16_t> RowOf(const PackedMatrix& matrix, int row) {
  PackedMatrix panels = matrix;
  if (matrix.is_gate_up) panels.segments[0].rows *= 2 * kPanelCols;
  std::vector<float> wide(matrix.cols);
  WeightStore::UnpackRow(panels, row, wide.data());
  std::vector<uint16_t> out;
  for (const float x : wide) out.push_back(RneBf16(x));
  return out;
}

class WeightStoreTest : public IsaTest {
 protected:
  WeightStoreTest() : pool_(2), store_(CpuOpsFor(GetParam()), NumericsMode::kBf16x2, &pool_) {}

  ThreadPool pool_;
  WeightStore store_;
};

QUIRE_FOR_EACH_ISA(WeightStoreTest);

TEST_P(WeightStoreTest, RowsOfAllPartsFollowEachOther) {
  const File a(DType::kQ4_1, 70, 96, 1), b(DType::kF32, 3, 96, 2), c(DType::kQ8_0, 40, 96, 3);
  const auto id = store_.PackMatrix({{a.view}, {b.view}, {c.view}});
  ASSERT_TRUE(id.ok());
  const PackedMatrix& matrix = store_.Matrix(*id);
  EXPECT_EQ(matrix.rows, 113);
  EXPECT_EQ(matrix.cols, 96);
  for (int i = 0; i < 70; ++i) EXPECT_TRUE(SameBits(RowOf(matrix, i), a.Row(i)));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(SameBits(RowOf(matrix, 70 + i), b.Row(i)));
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(SameBits(RowOf(matrix, 73 + i), c.Row(i)));
  EXPECT_EQ(store_.bytes(), 4 * 32 * 96 * 2);
}

TEST_P(WeightStoreTest, InterleavedRotaryRowsAreBroughtIntoHalves) {
  constexpr int kHeadDim = 6;
  const File file(DType::kBF16, 4 * kHeadDim, 32, 4);
  const auto id = store_.PackMatrix({{file.view, RowOrder::kRotaryInterleaved, kHeadDim}});
  ASSERT_TRUE(id.ok());
  static constexpr int kSource[kHeadDim] = {0, 2, 4, 1, 3, 5};
  for (int row = 0; row < 4 * kHeadDim; ++row) {
    const int source = row / kHeadDim * kHeadDim + kSource[row % kHeadDim];
    EXPECT_TRUE(SameBits(RowOf(store_.Matrix(*id), row), file.Row(source))) << row;
  }
}

TEST_P(WeightStoreTest, GateAndUpPanelsAlternate) {
  const File gate(DType::kQ4_0, 45, 64, 5), up(DType::kF16, 45, 64, 6);
  const auto id = store_.PackGateUp({gate.view}, {up.view});
  ASSERT_TRUE(id.ok());
  const PackedMatrix& matrix = store_.Matrix(*id);
  EXPECT_TRUE(matrix.is_gate_up);
  EXPECT_EQ(matrix.rows, 45);
  for (int i = 0; i < 45; ++i) {
    const int gate_row = i / 32 * 64 + i % 32;
    EXPECT_TRUE(SameBits(RowOf(matrix, gate_row), gate.Row(i))) << i;
    EXPECT_TRUE(SameBits(RowOf(matrix, gate_row + 32), up.Row(i))) << i;
  }
}

// Scales by element, by row, and by blocks that do not divide the matrix.
TEST_P(WeightStoreTest, EightBitFloatsAreMultipliedByTheScaleOfTheirBlock) {
  constexpr int kRows = 70, kCols = 150;
  File file(DType::kF8E4M3, kRows, kCols, 9);
  std::vector<float> scales(kRows * kCols);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.25f + 0.001f * static_cast<float>(i);
  for (const auto& [block_rows, block_cols] :
       {std::pair{kRows, kCols}, {1, kCols}, {32, 64}, {128, 128}}) {
    file.view.scales = {scales.data(), block_rows, block_cols};
    const auto id = store_.PackMatrix({{file.view}});
    ASSERT_TRUE(id.ok());
    const int blocks_per_row = (kCols + block_cols - 1) / block_cols;
    for (int row = 0; row < kRows; ++row) {
      EXPECT_TRUE(SameBits(RowOf(store_.Matrix(*id), row), file.Row(row))) << row;
      // 0x38 is 1: what it becomes is the scale.
      file.bytes[row * kCols + row] = 0x38;
      EXPECT_EQ(file.Row(row)[row],
                RneBf16(scales[row / block_rows * blocks_per_row + row / block_cols]));
    }
  }
}

TEST_P(WeightStoreTest, VectorsKeepTheirPrecision) {
  const File a(DType::kF32, 1, 8, 7), b(DType::kF16, 1, 6, 8);
  const auto id = store_.PackVector({{a.view, RowOrder::kRotaryInterleaved, 4}, {b.view}});
  ASSERT_TRUE(id.ok());
  std::vector<float> from_a(8), from_b(6);
  reference::Dequantize(a.view, 0, from_a.data());
  reference::Dequantize(b.view, 0, from_b.data());
  std::vector<float> expected = {from_a[0], from_a[2], from_a[1], from_a[3],
                                 from_a[4], from_a[6], from_a[5], from_a[7]};
  expected.insert(expected.end(), from_b.begin(), from_b.end());
  EXPECT_TRUE(SameBits(store_.Vector(*id), absl::MakeConstSpan(expected)));
}

// In mode a8g32 rows keep what their file has; neighbours of one type share panels.
class QuantizedStoreTest : public IsaTest {
 protected:
  QuantizedStoreTest() : pool_(2), store_(CpuOpsFor(GetParam()), NumericsMode::kA8g32, &pool_) {}
  void ExpectRow(const PackedMatrix& matrix, int row, const WeightView& view, int64_t file_row) {
    std::vector<float> actual(view.cols), expected(view.cols);
    WeightStore::UnpackRow(matrix, row, actual.data());
    reference::Dequantize(view, file_row, expected.data());
    EXPECT_TRUE(SameBits(actual, expected)) << "row " << row;
  }

  ThreadPool pool_;
  WeightStore store_;
};

QUIRE_FOR_EACH_ISA(QuantizedStoreTest);

TEST_P(QuantizedStoreTest, PartsOfOneTypeFormASegment) {
  const QuantizedWeight a(DType::kQ4_K, 70, 256, 1), b(DType::kQ4_K, 3, 256, 2),
      c(DType::kQ6_K, 40, 256, 3);
  const File d(DType::kBF16, 5, 256, 4);
  const auto id = store_.PackMatrix({{a.view}, {b.view}, {c.view}, {d.view}});
  ASSERT_TRUE(id.ok());
  const PackedMatrix& matrix = store_.Matrix(*id);
  EXPECT_EQ(matrix.rows, 118);
  ASSERT_EQ(matrix.segments.size(), 3u);
  EXPECT_EQ(matrix.segments[0].format, PackedFormat::kQ4K);
  EXPECT_EQ(matrix.segments[0].rows, 73);
  EXPECT_EQ(matrix.segments[1].format, PackedFormat::kQ6K);
  EXPECT_EQ(matrix.segments[1].first_row, 73);
  EXPECT_EQ(matrix.segments[2].format, PackedFormat::kBf16);
  for (int i = 0; i < 70; ++i) ExpectRow(matrix, i, a.view, i);
  for (int i = 0; i < 3; ++i) ExpectRow(matrix, 70 + i, b.view, i);
  for (int i = 0; i < 40; ++i) ExpectRow(matrix, 73 + i, c.view, i);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(SameBits(RowOf(matrix, 113 + i), d.Row(i)));
  // Panels of 32 rows: 3, 2 and 1.
  const int64_t bytes = 96 * 144 + 64 * 210 + 32 * 512;
  EXPECT_EQ(store_.bytes(), bytes);
  EXPECT_EQ(PackedWeightBytes(NumericsMode::kA8g32, DType::kQ4_K, {}, 73, 256) +
                PackedWeightBytes(NumericsMode::kA8g32, DType::kQ6_K, {}, 40, 256) +
                PackedWeightBytes(NumericsMode::kA8g32, DType::kBF16, {}, 5, 256),
            bytes);
}

TEST_P(QuantizedStoreTest, RotaryRowsKeepTheirNumbers) {
  const QuantizedWeight w(DType::kQ8_0, 12, 64, 5);
  const auto id = store_.PackMatrix({{w.view, RowOrder::kRotaryInterleaved, 6}});
  ASSERT_TRUE(id.ok());
  static constexpr int kSource[6] = {0, 2, 4, 1, 3, 5};
  for (int row = 0; row < 12; ++row) {
    ExpectRow(store_.Matrix(*id), row, w.view, row / 6 * 6 + kSource[row % 6]);
  }
}

TEST_P(QuantizedStoreTest, GateAndUpOfTwoTypesBecomeBf16) {
  const QuantizedWeight gate(DType::kQ4_0, 40, 64, 6), up(DType::kQ8_0, 40, 64, 7);
  const auto mixed = store_.PackGateUp({gate.view}, {up.view});
  const auto equal = store_.PackGateUp({gate.view}, {gate.view});
  ASSERT_TRUE(mixed.ok() && equal.ok());
  EXPECT_EQ(store_.Matrix(*mixed).segments[0].format, PackedFormat::kBf16);
  EXPECT_EQ(store_.Matrix(*equal).segments[0].format, PackedFormat::kU4);
}

TEST_P(QuantizedStoreTest, RowsAreRoundedWhereTheirPartAsksForIt) {
  const File plain(DType::kBF16, 40, 96, 8);
  const QuantizedWeight own(DType::kQ8_0, 40, 96, 9);
  const auto rounded = store_.PackMatrix({{plain.view, RowOrder::kAsIs, 0, DType::kQ4_0}});
  const auto kept = store_.PackMatrix({{own.view, RowOrder::kAsIs, 0, DType::kQ4_0}});
  ASSERT_TRUE(rounded.ok() && kept.ok());
  EXPECT_EQ(store_.Matrix(*rounded).segments[0].format, PackedFormat::kU4);
  EXPECT_EQ(store_.Matrix(*kept).segments[0].format, PackedFormat::kU8);
  for (int row = 0; row < 40; ++row) {
    std::vector<float> wide(96), expected(96), actual(96);
    for (int i = 0; i < 96; ++i) wide[i] = FromBf16(plain.Row(row)[i]);
    std::vector<uint8_t> bytes(3 * 18);
    QuantizeWeightRow(DType::kQ4_0, wide.data(), 96, bytes.data());
    reference::Dequantize({reinterpret_cast<const std::byte*>(bytes.data()), DType::kQ4_0, 1, 96},
                          0, expected.data());
    WeightStore::UnpackRow(store_.Matrix(*rounded), row, actual.data());
    EXPECT_TRUE(SameBits(actual, expected)) << row;
  }
}

TEST_P(QuantizedStoreTest, ADepthThatFillsNoGroupsStaysBf16) {
  const File plain(DType::kBF16, 8, 50, 10);
  const auto id = store_.PackMatrix({{plain.view, RowOrder::kAsIs, 0, DType::kQ8_0}});
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(store_.Matrix(*id).segments[0].format, PackedFormat::kBf16);
}

}  // namespace
}  // namespace quire
