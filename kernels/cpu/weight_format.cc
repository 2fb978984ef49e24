#include "kernels/cpu/weight_format.h"

namespace quire {

PackedFormat PackedFormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
      break;
    case DType::kQ4_0:
      return PackedFormat::kU4;
    case DType::kQ4_1:
      return PackedFormat::kU4Min;
    case DType::kQ5_0:
      return PackedFormat::kU5;
    case DType::kQ5_1:
      return PackedFormat::kU5Min;
    case DType::kQ8_0:
      return PackedFormat::kU8;
    case DType::kQ4_K:
      return PackedFormat::kQ4K;
    case DType::kQ5_K:
      return PackedFormat::kQ5K;
    case DType::kQ6_K:
      return PackedFormat::kQ6K;
  }
  return PackedFormat::kBf16;
}

PackedFormat HeldFormatOf(NumericsMode mode, DType dtype, std::optional<DType> quantize_to,
                          int64_t cols) {
  if (mode == NumericsMode::kBf16x2) return PackedFormat::kBf16;
  if (IsQuantized(dtype)) return PackedFormatOf(dtype);
  if (!quantize_to.has_value() || cols % kGroupDepth != 0) return PackedFormat::kBf16;
  return PackedFormatOf(*quantize_to);
}

int64_t PackedWeightBytes(NumericsMode mode, DType dtype, std::optional<DType> quantize_to,
                          int64_t rows, int64_t cols) {
  return PackedBytes(HeldFormatOf(mode, dtype, quantize_to, cols), static_cast<int>(rows),
                     static_cast<int>(cols));
}

}  // namespace quire
