#ifndef QUIRE_KERNELS_CPU_UNPACK_H_
#define QUIRE_KERNELS_CPU_UNPACK_H_

// Rows of weights as they lie in a file, turned into bf16. The formats of quantised blocks are
// those of the GGUF specification: fp16 scale (and minimum), then 32 integers; nibbles hold
// elements 0-15 in the low half, 16-31 in the high half. Rows may have any alignment.

#include <stdint.h>

#include "kernels/cpu/f16.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

struct LoadFloats {
  using Element = float;
  static QUIRE_INLINE F32x16 Widen(const Element* p) { return Load(p); }
};
struct LoadHalves {
  using Element = uint16_t;
  static QUIRE_INLINE F32x16 Widen(const Element* p) { return LoadF16(p); }
};
struct LoadBf16s {
  using Element = uint16_t;
  static QUIRE_INLINE F32x16 Widen(const Element* p) { return LoadBf16(p); }
};

template <typename Format>
QUIRE_INLINE void UnpackPlainRow(const uint8_t* row, int64_t cols, uint16_t* out) {
  using Element = typename Format::Element;
  int64_t i = 0;
  for (; i + 16 <= cols; i += 16) {
    Element elements[16];
    __builtin_memcpy(elements, row + i * sizeof(Element), sizeof(elements));
    StoreBf16(out + i, Format::Widen(elements));
  }
  const int rest = static_cast<int>(cols - i);
  if (rest > 0) {
    Element elements[16] = {};
    __builtin_memcpy(elements, row + i * sizeof(Element), rest * sizeof(Element));
    StoreBf16N(out + i, Format::Widen(elements), rest);
  }
}

inline void UnpackF32Row(const uint8_t* row, int64_t cols, uint16_t* out) {
  UnpackPlainRow<LoadFloats>(row, cols, out);
}
inline void UnpackF16Row(const uint8_t* row, int64_t cols, uint16_t* out) {
  UnpackPlainRow<LoadHalves>(row, cols, out);
}
inline void UnpackBf16Row(const uint8_t* row, int64_t cols, uint16_t* out) {
  UnpackPlainRow<LoadBf16s>(row, cols, out);
}

QUIRE_INLINE float ReadF16At(const uint8_t* p) {
  uint16_t half;
  __builtin_memcpy(&half, p, sizeof(half));
  return FromF16(half);
}

QUIRE_INLINE F32x16 BroadcastF16(const uint8_t* p) { return Broadcast(ReadF16At(p)); }

// 32 nibbles at `quants`: out = rne_bf16(fma(q - zero_point, scale, min)).
QUIRE_INLINE void UnpackNibbles(const uint8_t* quants, int zero_point, F32x16 scale, F32x16 min,
                                uint16_t* out) {
  const I32x16 bytes = LoadU8(quants);
  const I32x16 zero = BroadcastInt(zero_point);
  const F32x16 low = ToFloat((bytes & BroadcastInt(15)) - zero);
  const F32x16 high = ToFloat(ShiftRight<4>(bytes) - zero);
  StoreBf16(out, Fma(low, scale, min));
  StoreBf16(out + 16, Fma(high, scale, min));
}

inline void UnpackQ40Row(const uint8_t* row, int64_t cols, uint16_t* out) {
  for (int64_t i = 0; i < cols; i += 32, row += 18) {
    UnpackNibbles(row + 2, 8, BroadcastF16(row), Zero16(), out + i);
  }
}

inline void UnpackQ41Row(const uint8_t* row, int64_t cols, uint16_t* out) {
  for (int64_t i = 0; i < cols; i += 32, row += 20) {
    UnpackNibbles(row + 4, 0, BroadcastF16(row), BroadcastF16(row + 2), out + i);
  }
}

// 16 where `bits` has all bits of `mask`, else 0.
QUIRE_INLINE I32x16 SixteenWhere(I32x16 bits, I32x16 mask) {
  return Select(EqualInt(bits & mask, mask), BroadcastInt(16), BroadcastInt(0));
}

// The fifth bits of 32 numbers, as 0 or 16: bit i of the 32-bit word at `bits` is number i's.
// `half` says which 16.
QUIRE_INLINE I32x16 FifthBits(const uint8_t* bits, int half) {
  static const int32_t kBitOfLane[16] = {1 << 0,  1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                         1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                         1 << 12, 1 << 13, 1 << 14, 1 << 15};
  const int32_t word = bits[2 * half] | bits[2 * half + 1] << 8;
  return SixteenWhere(BroadcastInt(word), LoadInt(kBitOfLane));
}

// As UnpackNibbles, with fifth bits at `bits`.
QUIRE_INLINE void UnpackFives(const uint8_t* bits, const uint8_t* quants, int zero_point,
                              F32x16 scale, F32x16 min, uint16_t* out) {
  const I32x16 bytes = LoadU8(quants);
  const I32x16 zero = BroadcastInt(zero_point);
  const I32x16 low = ((bytes & BroadcastInt(15)) | FifthBits(bits, 0)) - zero;
  const I32x16 high = (ShiftRight<4>(bytes) | FifthBits(bits, 1)) - zero;
  StoreBf16(out, Fma(ToFloat(low), scale, min));
  StoreBf16(out + 16, Fma(ToFloat(high), scale, min));
}

inline void UnpackQ50Row(const uint8_t* row, int64_t cols, uint16_t* out) {
  for (int64_t i = 0; i < cols; i += 32, row += 22) {
    UnpackFives(row + 2, row + 6, 16, BroadcastF16(row), Zero16(), out + i);
  }
}

inline void UnpackQ51Row(const uint8_t* row, int64_t cols, uint16_t* out) {
  for (int64_t i = 0; i < cols; i += 32, row += 24) {
    UnpackFives(row + 4, row + 8, 0, BroadcastF16(row), BroadcastF16(row + 2), out + i);
  }
}

inline void UnpackQ80Row(const uint8_t* row, int64_t cols, uint16_t* out) {
  for (int64_t i = 0; i < cols; i += 32, row += 34) {
    const F32x16 scale = BroadcastF16(row);
    const int8_t* quants = reinterpret_cast<const int8_t*>(row + 2);
    StoreBf16(out + i, Fma(ToFloat(LoadI8(quants)), scale, Zero16()));
    StoreBf16(out + i + 16, Fma(ToFloat(LoadI8(quants + 16)), scale, Zero16()));
  }
}

// An E4M3 number shifted into an fp16 is 2^-8 of itself, denormals included, but for its two NaNs.
QUIRE_INLINE uint16_t HalfOfE4M3(uint8_t bits) {
  const uint32_t sign = (uint32_t{bits} & 0x80u) << 8;
  const uint32_t magnitude = bits & 0x7fu;
  return static_cast<uint16_t>(sign | (magnitude == 0x7fu ? 0x7e00u : magnitude << 7));
}

// out = rne_bf16(fma(q, scale, 0)).
inline void UnpackF8E4M3Row(const uint8_t* row, int64_t cols, float scale, uint16_t* out) {
  const F32x16 scales = Broadcast(scale);
  for (int64_t i = 0; i < cols; i += 16) {
    const int n = cols - i < 16 ? static_cast<int>(cols - i) : 16;
    uint16_t halves[16] = {};
    for (int lane = 0; lane < n; ++lane) halves[lane] = HalfOfE4M3(row[i + lane]);
    const F32x16 values = LoadF16(halves) * Broadcast(256.0f);
    StoreBf16N(out + i, Fma(values, scales, Zero16()), n);
  }
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_UNPACK_H_
