#ifndef QUIRE_KERNELS_CPU_GEMM_A8G32_UNPACK_H_
#define QUIRE_KERNELS_CPU_GEMM_A8G32_UNPACK_H_

// Groups of quantised weights brought from their panel into the L1 cache, in one form for all
// formats: unsigned bytes by quads, scales and mins in fp32. Products read only this form, so a
// format is one specialisation of what stands here.

#include <stdint.h>

#include "kernels/cpu/packed_format.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// With VPMADDUBSW, sums of products of 8-bit numbers would not fit 16 bits: such elements are held
// as two planes of nibbles.
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
inline constexpr bool kSplitsBytes = true;
#else
inline constexpr bool kSplitsBytes = false;
#endif

inline constexpr int kPieceGroups = 8;

// Up to kPieceGroups groups of one panel.
template <PackedFormat kFormat>
struct Piece {
  static constexpr QuantFormat kQuant = QuantOf(kFormat);
  static constexpr int kPlanes = kSplitsBytes && kQuant.bits == 8 ? 2 : 1;
  static constexpr int kScales = kGroupDepth / kQuant.scale_depth;  // of a column in a group

  // The element is plane 0, plus 16 * plane 1 where there is one.
  alignas(64) uint8_t quads[kPieceGroups][kPlanes][kGroupQuads * kQuadBytes];
  alignas(64) float scale[kPieceGroups][kScales][kPanelCols];
  alignas(64) float min[kQuant.has_min ? kPieceGroups : 1][kPanelCols];  // to be added
};

// 64 bytes: one quad of 16 columns.
QUIRE_INLINE I32x16 LoadQuads(const uint8_t* p) { return LoadBits(p); }
QUIRE_INLINE void StoreQuads(uint8_t* p, I32x16 quads) { StoreBits(p, quads); }

QUIRE_INLINE F32x16 LoadHalf16(const uint8_t* p) {
  uint16_t halves[16];
  __builtin_memcpy(halves, p, sizeof(halves));
  return LoadF16(halves);
}

// Brings memory that is needed soon into the L2 cache; streams of whole panels outrun what the
// processor fetches by itself, which stops at the ends of pages.
inline constexpr int kUnpackAhead = 4096;
QUIRE_INLINE void FetchAhead(const uint8_t* p, int bytes) {
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch(p + kUnpackAhead + i, 0, 2);
}

// fn<i>() for i in [0, kEnd), unrolled.
template <int kEnd, typename Fn>
QUIRE_INLINE void Unrolled(Fn fn) {
  if constexpr (kEnd > 0) {
    Unrolled<kEnd - 1>(fn);
    fn.template operator()<kEnd - 1>();
  }
}

// The bits of quads 2 * kPair and 2 * kPair + 1 above the fourth, in place.
template <int kBits, int kQuad>
QUIRE_INLINE I32x16 UpperBits(const uint8_t* upper) {
  if constexpr (kBits == 5) {
    return ShiftLeft<4>(ShiftRight<kQuad>(LoadQuads(upper)) & BroadcastInt(0x01010101));
  } else {
    const I32x16 words = LoadQuads(upper + kQuad / 4 * kQuadBytes);
    return ShiftLeft<4>(ShiftRight<kQuad % 4 * 2>(words) & BroadcastInt(0x03030303));
  }
}

// One group of 16 columns. group, out: at the first of the columns.
template <int kBits>
QUIRE_INLINE void UnpackNibbleQuads(const uint8_t* group, uint8_t* out) {
  const I32x16 nibble = BroadcastInt(0x0f0f0f0f);
  const uint8_t* const upper = group + 4 * kQuadBytes;
  Unrolled<4>([&]<int kPair>() __attribute__((always_inline)) {
    const I32x16 both = LoadQuads(group + kPair * kQuadBytes);
    I32x16 first = both & nibble;
    I32x16 second = ShiftRight<4>(both) & nibble;
    if constexpr (kBits > 4) {
      first = first | UpperBits<kBits, 2 * kPair>(upper);
      second = second | UpperBits<kBits, 2 * kPair + 1>(upper);
    }
    StoreQuads(out + 2 * kPair * kQuadBytes, first);
    StoreQuads(out + (2 * kPair + 1) * kQuadBytes, second);
  });
}

QUIRE_INLINE void UnpackByteQuads(const uint8_t* group, uint8_t* out) {
  const I32x16 nibble = BroadcastInt(0x0f0f0f0f);
  for (int i = 0; i < kGroupQuads * kQuadBytes; i += kQuadBytes) {
    const I32x16 bytes = LoadQuads(group + i);
    if constexpr (kSplitsBytes) {
      StoreQuads(out + i, bytes & nibble);
      StoreQuads(out + kGroupQuads * kQuadBytes + i, ShiftRight<4>(bytes) & nibble);
    } else {
      StoreQuads(out + i, bytes);
    }
  }
}

template <PackedFormat kFormat>
QUIRE_INLINE void UnpackGroup(const uint8_t* group, int g, Piece<kFormat>* piece) {
  constexpr int kBits = Piece<kFormat>::kQuant.bits;
  FetchAhead(group, Piece<kFormat>::kQuant.GroupBytes());
  for (int at = 0; at < kQuadBytes; at += 64) {
    uint8_t* const out = piece->quads[g][0] + at;
    if constexpr (kBits == 8) {
      UnpackByteQuads(group + at, out);
    } else {
      UnpackNibbleQuads<kBits>(group + at, out);
    }
  }
}

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

// The scales and mins of one span, for groups g and up of the piece.
template <PackedFormat kFormat>
QUIRE_INLINE void UnpackScales(const uint8_t* scales, int g, Piece<kFormat>* piece) {
  constexpr QuantFormat kQuant = Piece<kFormat>::kQuant;
  for (int column = 0; column < kPanelCols; column += 16) {
    if constexpr (kQuant.scales == ScaleKind::kHalf) {
      const uint8_t* const halves = scales + 2 * column;
      Store(piece->scale[g][0] + column, LoadHalf16(halves));
      if constexpr (kQuant.has_min) {
        Store(piece->min[g] + column, LoadHalf16(halves + 2 * kPanelCols));
      }
    } else if constexpr (kQuant.scales == ScaleKind::kSixBits) {
      const uint8_t* const words = scales + 4 * column;
      const F32x16 d = LoadHalf16(scales + 3 * kQuadBytes + 2 * column);
      const F32x16 dmin = LoadHalf16(scales + 3 * kQuadBytes + 2 * kPanelCols + 2 * column);
      Unrolled<8>([&]<int kGroup>() __attribute__((always_inline)) {
        Store(piece->scale[g + kGroup][0] + column, d * SixBitsOf<kGroup>(words));
        Store(piece->min[g + kGroup] + column, Negated(dmin * SixBitsOf<kGroup + 8>(words)));
      });
    } else {
      const F32x16 d = LoadHalf16(scales + 16 * kPanelCols + 2 * column);
      for (int i = 0; i < 16; ++i) {
        int8_t bytes[16];
        __builtin_memcpy(bytes, scales + i * kPanelCols + column, sizeof(bytes));
        Store(piece->scale[g + i / 2][i % 2] + column, d * ToFloat(LoadI8(bytes)));
      }
    }
  }
}

// Groups [0, num_groups) from `spans` on: whole spans, kPieceGroups groups at most.
template <PackedFormat kFormat>
QUIRE_INLINE void UnpackPiece(const uint8_t* spans, int num_groups, Piece<kFormat>* piece) {
  constexpr QuantFormat kQuant = Piece<kFormat>::kQuant;
  for (int g = 0; g < num_groups; g += kQuant.groups_per_span) {
    for (int i = 0; i < kQuant.groups_per_span; ++i) {
      UnpackGroup<kFormat>(spans + i * kQuant.GroupBytes(), g + i, piece);
    }
    UnpackScales<kFormat>(spans + kQuant.groups_per_span * kQuant.GroupBytes(), g, piece);
    spans += kQuant.SpanBytes();
  }
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_A8G32_UNPACK_H_
