#include "kernels/cpu/weight_store.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/unpack.h"
#include "tests/kernels/bits.h"

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

}  // namespace
}  // namespace quire
