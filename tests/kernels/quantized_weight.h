#ifndef QUIRE_TESTS_KERNELS_QUANTIZED_WEIGHT_H_
#define QUIRE_TESTS_KERNELS_QUANTIZED_WEIGHT_H_

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/weight_format.h"
#include "kernels/cpu/weight_packing.h"
#include "kernels/tensor.h"

namespace quire {

inline constexpr DType kQuantizedTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                            DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

// A weight as a file holds it: random numbers, and scales and mins that are sane fp16 of both
// signs.
class QuantizedWeight {
 public:
  QuantizedWeight(DType dtype, int64_t rows, int64_t cols, uint32_t seed) {
    const DTypeInfo info = InfoOf(dtype);
    const int64_t num_blocks = rows * cols / info.block_elems;
    bytes_.resize(num_blocks * info.block_bytes);
    std::mt19937 random(seed);
    for (uint8_t& byte : bytes_) byte = static_cast<uint8_t>(random());
    for (int64_t i = 0; i < num_blocks; ++i) {
      uint8_t* const block = &bytes_[i * info.block_bytes];
      const int first = ScalePlace(dtype);
      const bool two = dtype == DType::kQ4_1 || dtype == DType::kQ5_1 || dtype == DType::kQ4_K ||
                       dtype == DType::kQ5_K;
      for (int half = 0; half < (two ? 2 : 1); ++half) {
        // Exponents 4 to 19, any sign and mantissa; now and then a zero.
        uint16_t bits = static_cast<uint16_t>(random() & 0xbfff);
        bits = (bits & 0x8000) | (4 + (bits >> 10 & 15)) << 10 | (bits & 0x3ff);
        if (random() % 16 == 0) bits &= 0x8000;
        std::memcpy(block + first + 2 * half, &bits, sizeof(bits));
      }
    }
    view = {reinterpret_cast<const std::byte*>(bytes_.data()), dtype, rows, cols};
  }

  const uint8_t* Row(int64_t row) const {
    return bytes_.data() + row * (static_cast<int64_t>(bytes_.size()) / view.rows);
  }

  // Of the first block of a row, as the bits of an fp16.
  void SetScale(int64_t row, uint16_t bits) {
    const int64_t row_bytes = static_cast<int64_t>(bytes_.size()) / view.rows;
    std::memcpy(&bytes_[row * row_bytes + ScalePlace(view.dtype)], &bits, sizeof(bits));
  }

  WeightView view;

 private:
  // Where in a block its first fp16 lies.
  static int ScalePlace(DType dtype) { return dtype == DType::kQ6_K ? 208 : 0; }

  std::vector<uint8_t> bytes_;
};

// Panels of quantised weights at an address that is a multiple of 64.
class QuantizedPanels {
 public:
  // Interleaves the panels of several weights of equal type and shape.
  explicit QuantizedPanels(const std::vector<const QuantizedWeight*>& weights) {
    const WeightView& view = weights[0]->view;
    const PackedFormat format = PackedFormatOf(view.dtype);
    const int k = static_cast<int>(view.cols);
    const int n = static_cast<int>(view.rows);
    // Stale bytes: packing writes all of a panel.
    storage_.resize(weights.size() * PackedBytes(format, n, k) + 64, 0xa5);
    uint8_t* panel = Aligned();
    for (int begin = 0; begin < n; begin += kPanelCols) {
      for (const QuantizedWeight* weight : weights) {
        const uint8_t* rows[kPanelCols];
        const int num_rows = n - begin < kPanelCols ? n - begin : kPanelCols;
        for (int i = 0; i < num_rows; ++i) rows[i] = weight->Row(begin + i);
        PackQuantizedPanel(view.dtype, rows, num_rows, k, panel);
        panel += PanelBytes(format, k);
      }
    }
  }
  uint8_t* Aligned() {
    const uintptr_t address = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<uint8_t> storage_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_QUANTIZED_WEIGHT_H_
