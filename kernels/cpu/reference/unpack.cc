#include "kernels/cpu/reference/unpack.h"

#include <cmath>
#include <cstring>
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

// Element `i` of the block at `block`.
float ElementOf(DType dtype, const uint8_t* block, int i) {
  switch (dtype) {
    case DType::kF32:
      return Read<float>(block);
    case DType::kF16:
      return ReadF16(block);
    case DType::kBF16:
      return FromBf16(Read<uint16_t>(block));
    case DType::kQ4_0:
      return std::fma(static_cast<float>(Nibble(block + 2, i) - 8), ReadF16(block), 0.0f);
    case DType::kQ4_1:
      return std::fma(static_cast<float>(Nibble(block + 4, i)), ReadF16(block), ReadF16(block + 2));
    case DType::kQ8_0:
      return std::fma(static_cast<float>(static_cast<int8_t>(block[2 + i])), ReadF16(block), 0.0f);
  }
  return 0;
}

}  // namespace

void Dequantize(const WeightView& view, int64_t row, float* out) {
  const DTypeInfo info = InfoOf(view.dtype);
  const int64_t blocks_per_row = view.cols / info.block_elems;
  const uint8_t* blocks =
      reinterpret_cast<const uint8_t*>(view.data) + row * blocks_per_row * info.block_bytes;
  for (int64_t i = 0; i < view.cols; ++i) {
    const uint8_t* block = blocks + i / info.block_elems * info.block_bytes;
    out[i] = ElementOf(view.dtype, block, static_cast<int>(i % info.block_elems));
  }
}

void UnpackRow(const WeightView& view, int64_t row, uint16_t* out) {
  std::vector<float> values(view.cols);
  Dequantize(view, row, values.data());
  for (int64_t i = 0; i < view.cols; ++i) out[i] = RneBf16(values[i]);
}

}  // namespace quire::reference
