#ifndef QUIRE_KERNELS_CPU_WEIGHT_GROUPS_H_
#define QUIRE_KERNELS_CPU_WEIGHT_GROUPS_H_

// Groups of quantised weights in one form for all formats: bytes by quads, scales and mins in fp32.
// Products read only this form, so a format is one specialisation of what stands here.

#include <stdint.h>

#include "kernels/cpu/packed_format.h"
#include "kernels/cpu/unrolled.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// 64 bytes: one quad of 16 columns.
QUIRE_INLINE I32x16 LoadQuads(const uint8_t* p) { return LoadBits(p); }

QUIRE_INLINE F32x16 LoadHalf16(const uint8_t* p) {
  uint16_t halves[16];
  __builtin_memcpy(halves, p, sizeof(halves));
  return LoadF16(halves);
}

// Brings memory that is needed soon into a cache; streams of whole panels outrun what the processor
// fetches by itself, which stops at the ends of pages. One line of kEvery.
inline constexpr int kUnpackAhead = 4096;
inline constexpr int kIntoL1 = 3;
inline constexpr int kIntoL2 = 2;
template <int kEvery, int kInto>
QUIRE_INLINE void FetchAhead(const uint8_t* p, int bytes) {
  for (int i = 0; i < bytes; i += 64 * kEvery) __builtin_prefetch(p + kUnpackAhead + i, 0, kInto);
}

// The bits above the fourth of quad kQuad, in place. upper: at the first of 16 columns.
template <int kBits, int kQuad>
QUIRE_INLINE I32x16 UpperBits(const uint8_t* upper) {
  if constexpr (kBits == 5) {
    return ShiftLeft<4>(ShiftRight<kQuad>(LoadQuads(upper)) & BroadcastInt(0x01010101));
  } else {
    const I32x16 words = LoadQuads(upper + kQuad / 4 * kQuadBytes);
    return ShiftLeft<4>(ShiftRight<kQuad % 4 * 2>(words) & BroadcastInt(0x03030303));
  }
}

// Bits of a group of 16 columns that a panel holds for each element. group: at the first of them.
template <int kBits, int kQuad>
QUIRE_INLINE I32x16 UnpackQuads(const uint8_t* group) {
  if constexpr (kBits == 8) {
    return LoadQuads(group + kQuad * kQuadBytes);
  } else {
    const I32x16 both = LoadQuads(group + kQuad / 2 * kQuadBytes);
    const I32x16 low = ShiftRight<kQuad % 2 * 4>(both) & BroadcastInt(0x0f0f0f0f);
    if constexpr (kBits == 4) return low;
    return low | UpperBits<kBits, kQuad>(group + 4 * kQuadBytes);
  }
}

// Scales and mins of one span, of formats whose groups share what they are made of.
template <PackedFormat kFormat>
struct SpanScales {
  static constexpr QuantFormat kQuant = QuantOf(kFormat);
  static constexpr int kScales = kGroupDepth / kQuant.scale_depth;  // of a column in a group

  alignas(64) float scale[kQuant.groups_per_span][kScales][kPanelCols];
  alignas(64) float min[kQuant.has_min ? kQuant.groups_per_span : 1][kPanelCols];  // to be added
};

// A group of columns from `column` on, 16 by 16.
template <PackedFormat kFormat>
struct GroupColumns {
  static constexpr QuantFormat kQuant = QuantOf(kFormat);
  static constexpr int kScales = SpanScales<kFormat>::kScales;
  static constexpr bool kHasOwnScale = kQuant.scales == ScaleKind::kHalf;

  template <int kQuad>
  QUIRE_INLINE I32x16 Quads(int c) const {
    return UnpackQuads<kQuant.bits, kQuad>(group + (column + 16 * c) * 4);
  }
  QUIRE_INLINE F32x16 Scale(int part, int c) const {
    if constexpr (kHasOwnScale) return OwnHalf(column + 16 * c);
    return Load(scales.scale[g][part] + column + 16 * c);
  }
  QUIRE_INLINE F32x16 Min(int c) const {
    if constexpr (kHasOwnScale) return OwnHalf(kPanelCols + column + 16 * c);
    return Load(scales.min[g] + column + 16 * c);
  }
  QUIRE_INLINE F32x16 OwnHalf(int i) const {
    return LoadHalf16(group + kQuant.GroupBytes() + 2 * i);
  }

  const uint8_t* group;               // in its panel
  const SpanScales<kFormat>& scales;  // read where groups have none of their own
  int g;                              // in its span
  int column;
};

// 6-bit number kIndex of 16 columns (PlaceOfSixBits). words: at the first of the columns.
template <int kIndex>
QUIRE_INLINE F32x16 SixBitsOf(const uint8_t* words) {
  if constexpr (kIndex < 15) {
    constexpr SixBitPlace kPlace = PlaceOfSixBits(kIndex);
    const I32x16 word = LoadQuads(words + kPlace.word * kQuadBytes);
    return ToFloat(ShiftRight<kPlace.shift>(word) & BroadcastInt(63));
  } else {
    return ToFloat(ShiftRight<30>(LoadQuads(words)) |
                   ShiftLeft<2>(ShiftRight<30>(LoadQuads(words + kQuadBytes))) |
                   ShiftLeft<4>(ShiftRight<30>(LoadQuads(words + 2 * kQuadBytes))));
  }
}

QUIRE_INLINE F32x16 Negated(F32x16 x) {
  return AsFloat(AsInt(x) ^ BroadcastInt(static_cast<int32_t>(0x80000000u)));
}

// scales: at those of a span. Nothing to do where groups have their own.
template <PackedFormat kFormat>
QUIRE_INLINE void UnpackScales(const uint8_t* scales, SpanScales<kFormat>* out) {
  constexpr QuantFormat kQuant = QuantOf(kFormat);
  for (int column = 0; column < kPanelCols; column += 16) {
    if constexpr (kQuant.scales == ScaleKind::kSixBits) {
      const uint8_t* const words = scales + 4 * column;
      const F32x16 d = LoadHalf16(scales + 3 * kQuadBytes + 2 * column);
      const F32x16 dmin = LoadHalf16(scales + 3 * kQuadBytes + 2 * kPanelCols + 2 * column);
      Unrolled<8>([&]<int kGroup>() __attribute__((always_inline)) {
        Store(out->scale[kGroup][0] + column, d * SixBitsOf<kGroup>(words));
        Store(out->min[kGroup] + column, Negated(dmin * SixBitsOf<kGroup + 8>(words)));
      });
    } else if constexpr (kQuant.scales == ScaleKind::kInt8) {
      const F32x16 d = LoadHalf16(scales + 16 * kPanelCols + 2 * column);
      for (int i = 0; i < 16; ++i) {
        int8_t bytes[16];
        __builtin_memcpy(bytes, scales + i * kPanelCols + column, sizeof(bytes));
        Store(out->scale[i / 2][i % 2] + column, d * ToFloat(LoadI8(bytes)));
      }
    }
  }
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_WEIGHT_GROUPS_H_
