#ifndef QUIRE_KERNELS_CPU_UNPACK_K_H_
#define QUIRE_KERNELS_CPU_UNPACK_K_H_

// Rows of ggml's "K" formats turned into bf16: blocks of 256 elements, whose parts of 32 (or 16)
// have small integers as scales, themselves scaled by an fp16. Rows may have any alignment.
//
//   Q4_K  fp16 d, fp16 dmin, 12 bytes of scales and mins, 128 bytes of nibbles
//   Q5_K  the same, with 32 bytes of fifth bits before the nibbles
//   Q6_K  128 bytes of nibbles, 64 bytes of upper pairs of bits, 16 int8 scales, fp16 d

#include <stdint.h>

#include "kernels/cpu/six_bits.h"
#include "kernels/cpu/unpack.h"

namespace quire {
inline namespace QUIRE_ISA {

inline constexpr int kBlockOfK = 256;

// Both products are exact in fp32: 11 bits times 6.
struct PartScale {
  F32x16 scale;
  F32x16 min;  // to be added
};
QUIRE_INLINE PartScale ScaleOfPart(float d, float dmin, const uint8_t* bytes, int part) {
  const SixBitPair six = SixBits(bytes, part);
  return {Broadcast(d * static_cast<float>(six.scale)),
          Broadcast(-(dmin * static_cast<float>(six.min)))};
}

QUIRE_INLINE void StorePart(I32x16 q, const PartScale& part, uint16_t* out) {
  StoreBf16(out, Fma(ToFloat(q), part.scale, part.min));
}

inline void UnpackQ4KRow(const uint8_t* row, int64_t cols, uint16_t* out) {
  for (int64_t i = 0; i < cols; i += kBlockOfK, row += 144, out += kBlockOfK) {
    const float d = ReadF16At(row);
    const float dmin = ReadF16At(row + 2);
    for (int pair = 0; pair < 4; ++pair) {  // 32 bytes hold two parts: low nibbles, then high
      const uint8_t* const quants = row + 16 + 32 * pair;
      const PartScale low = ScaleOfPart(d, dmin, row + 4, 2 * pair);
      const PartScale high = ScaleOfPart(d, dmin, row + 4, 2 * pair + 1);
      for (int half = 0; half < 32; half += 16) {
        const I32x16 bytes = LoadU8(quants + half);
        StorePart(bytes & BroadcastInt(15), low, out + 64 * pair + half);
        StorePart(ShiftRight<4>(bytes), high, out + 64 * pair + 32 + half);
      }
    }
  }
}

inline void UnpackQ5KRow(const uint8_t* row, int64_t cols, uint16_t* out) {
  for (int64_t i = 0; i < cols; i += kBlockOfK, row += 176, out += kBlockOfK) {
    const float d = ReadF16At(row);
    const float dmin = ReadF16At(row + 2);
    for (int pair = 0; pair < 4; ++pair) {
      const uint8_t* const quants = row + 48 + 32 * pair;
      const PartScale low = ScaleOfPart(d, dmin, row + 4, 2 * pair);
      const PartScale high = ScaleOfPart(d, dmin, row + 4, 2 * pair + 1);
      for (int half = 0; half < 32; half += 16) {
        const I32x16 bytes = LoadU8(quants + half);
        const I32x16 fifth = LoadU8(row + 16 + half);  // bit p of byte i: of element i of part p
        StorePart((bytes & BroadcastInt(15)) | SixteenWhere(fifth, BroadcastInt(1 << 2 * pair)),
                  low, out + 64 * pair + half);
        StorePart(ShiftRight<4>(bytes) | SixteenWhere(fifth, BroadcastInt(2 << 2 * pair)), high,
                  out + 64 * pair + 32 + half);
      }
    }
  }
}

inline void UnpackQ6KRow(const uint8_t* row, int64_t cols, uint16_t* out) {
  const I32x16 nibble = BroadcastInt(15);
  const I32x16 upper = BroadcastInt(0x30);
  const I32x16 zero = BroadcastInt(32);
  for (int64_t i = 0; i < cols; i += kBlockOfK, row += 210, out += kBlockOfK) {
    const float d = ReadF16At(row + 208);
    for (int at = 0; at < 64; at += 16) {  // 16 lanes of each of the four parts of 32 of a half
      const int half = at / 32;            // which 128 elements
      const int lane = at % 32;
      const I32x16 low = LoadU8(row + 64 * half + lane);
      const I32x16 high = LoadU8(row + 64 * half + 32 + lane);
      const I32x16 pairs = LoadU8(row + 128 + 32 * half + lane);
      const I32x16 q[4] = {(low & nibble) | (ShiftLeft<4>(pairs) & upper),
                           (high & nibble) | (ShiftLeft<2>(pairs) & upper),
                           ShiftRight<4>(low) | (pairs & upper),
                           ShiftRight<4>(high) | (ShiftRight<2>(pairs) & upper)};
      for (int part = 0; part < 4; ++part) {
        const auto six = static_cast<int8_t>(row[192 + 8 * half + 2 * part + lane / 16]);
        const F32x16 scale = Broadcast(d * static_cast<float>(six));
        StoreBf16(out + 128 * half + 32 * part + lane,
                  Fma(ToFloat(q[part] - zero), scale, Zero16()));
      }
    }
  }
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_UNPACK_K_H_
