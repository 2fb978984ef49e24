#include "kernels/cpu/reference/unpack.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/f16.h"

namespace quire::reference {
namespace {

template <typename T>
T Read(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

float ReadF16(const uint8_t* p) { return FromF16(Read<uint16_t>(p)); }

// Element i of a block of 32 nibbles.
int Nibble(const uint8_t* quants, int i) { return i < 16 ? quants[i] & 15 : quants[i - 16] >> 4; }

// Element i of a block of 32 with a fifth bit: bit i of the little-endian word at `bits`.
int Five(const uint8_t* bits, const uint8_t* quants, int i) {
  return Nibble(quants, i) | static_cast<int>(Read<uint32_t>(bits) >> i & 1) << 4;
}

// fma(q, d * scale, -(dmin * min)) with the 6-bit scale and min of part i / 32 of a Q4_K or Q5_K
// block. The 12 bytes have eight scales and eight mins of 6 bits: s0-s3 and m0-m3 in the low bits
// of bytes 0-7; the low nibbles of bytes 8-11 are s4-s7's, the high ones m4-m7's, and the upper two
// bits of bytes 0-3 and 4-7 complete them.
Quant OfTwoScales(const uint8_t* block, int i, int q) {
  const uint8_t* bytes = block + 4;
  const int part = i / 32;
  const int scale =
      part < 4 ? bytes[part] & 63 : (bytes[part + 4] & 15) | bytes[part - 4] >> 6 << 4;
  const int min = part < 4 ? bytes[part + 4] & 63 : bytes[part + 4] >> 4 | bytes[part] >> 6 << 4;
  return {q, ReadF16(block) * static_cast<float>(scale),
          -(ReadF16(block + 2) * static_cast<float>(min))};
}

// Element i of 256 nibbles: each 32 bytes have 32 elements in their low halves, 32 in their high.
int NibbleOfK(const uint8_t* quants, int i) {
  return quants[i / 64 * 32 + i % 32] >> (i % 64 < 32 ? 0 : 4) & 15;
}

// Element i of a Q6_K block: each half of 128 has four parts of 32, whose nibbles are the low
// halves of 32 bytes, those of the next 32, and their high halves; two more bits lie in 32 other
// bytes.
Quant QuantOfQ6K(const uint8_t* block, int i) {
  const int half = i / 128;
  const int part = i % 128 / 32;
  const int lane = i % 32;
  const int low = block[64 * half + part % 2 * 32 + lane] >> (part < 2 ? 0 : 4) & 15;
  const int high = block[128 + 32 * half + lane] >> (2 * part) & 3;
  const auto scale = static_cast<int8_t>(block[192 + i / 16]);
  return {(low | high << 4) - 32, ReadF16(block + 208) * static_cast<float>(scale), 0.0f};
}

// One sign, four bits of exponent (bias 7), three of mantissa; no infinity.
float FromE4M3(uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(mantissa + 8), exponent - 10);
  return bits >> 7 ? -magnitude : magnitude;
}

// Element `i` of the block at `block` of a type that is not quantised.
float ElementOf(DType dtype, const uint8_t* block) {
  switch (dtype) {
    case DType::kF32:
      return Read<float>(block);
    case DType::kF16:
      return ReadF16(block);
    case DType::kBF16:
      return FromBf16(Read<uint16_t>(block));
    case DType::kF8E4M3:
      return FromE4M3(block[0]);
    default:
      return 0;
  }
}

// Of the F8 element at [row, col].
float ScaleOf(const WeightView& view, int64_t row, int64_t col) {
  const WeightScales& scales = view.scales;
  if (scales.data == nullptr) return 1;
  const int64_t blocks_per_row = (view.cols + scales.block_cols - 1) / scales.block_cols;
  return scales.data[row / scales.block_rows * blocks_per_row + col / scales.block_cols];
}

}  // namespace

Quant QuantOf(DType dtype, const uint8_t* block, int i) {
  switch (dtype) {
    case DType::kQ4_0:
      return {Nibble(block + 2, i) - 8, ReadF16(block), 0.0f};
    case DType::kQ4_1:
      return {Nibble(block + 4, i), ReadF16(block), ReadF16(block + 2)};
    case DType::kQ5_0:
      return {Five(block + 2, block + 6, i) - 16, ReadF16(block), 0.0f};
    case DType::kQ5_1:
      return {Five(block + 4, block + 8, i), ReadF16(block), ReadF16(block + 2)};
    case DType::kQ8_0:
      return {static_cast<int8_t>(block[2 + i]), ReadF16(block), 0.0f};
    case DType::kQ4_K:
      return OfTwoScales(block, i, NibbleOfK(block + 16, i));
    case DType::kQ5_K:
      return OfTwoScales(block, i,
                         NibbleOfK(block + 48, i) | (block[16 + i % 32] >> i / 32 & 1) << 4);
    case DType::kQ6_K:
      return QuantOfQ6K(block, i);
    default:
      return {};
  }
}

void Dequantize(const WeightView& view, int64_t row, float* out) {
  const DTypeInfo info = InfoOf(view.dtype);
  const int64_t blocks_per_row = view.cols / info.block_elems;
  const uint8_t* blocks =
      reinterpret_cast<const uint8_t*>(view.data) + row * blocks_per_row * info.block_bytes;
  for (int64_t i = 0; i < view.cols; ++i) {
    const uint8_t* block = blocks + i / info.block_elems * info.block_bytes;
    if (IsQuantized(view.dtype)) {
      const Quant quant = QuantOf(view.dtype, block, static_cast<int>(i % info.block_elems));
      out[i] = std::fma(static_cast<float>(quant.q), quant.scale, quant.min);
    } else {
      out[i] = ElementOf(view.dtype, block);
    }
    if (view.dtype == DType::kF8E4M3) out[i] = std::fma(out[i], ScaleOf(view, row, i), 0.0f);
  }
}

void UnpackRow(const WeightView& view, int64_t row, uint16_t* out) {
  std::vector<float> values(view.cols);
  Dequantize(view, row, values.data());
  for (int64_t i = 0; i < view.cols; ++i) out[i] = RneBf16(values[i]);
}

}  // namespace quire::reference
