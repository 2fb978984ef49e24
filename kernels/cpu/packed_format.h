#ifndef QUIRE_KERNELS_CPU_PACKED_FORMAT_H_
#define QUIRE_KERNELS_CPU_PACKED_FORMAT_H_

#include <stdint.h>

#include "kernels/cpu/isa_target.h"

// How weights lie in memory once packed. All formats have panels of 32 columns (rows of the file's
// matrix), so that a panel is one stream from memory and vector lanes lie over columns.
//
// bf16: [k / 2][32][2], k rounded up to a multiple of 32, padding zero: a block of 32 of k and 16
// columns is a tile of AMX, 16 rows of 64 bytes that are 128 bytes apart.
//
// Quantised formats cut k into groups of 32 and store each element as an unsigned number u of
// 4, 5, 6 or 8 bits: the weight is (u - offset) * scale + min. The four elements 4i..4i+3 of a
// column are one "quad", the unit of integer dot products. Per group:
//
//   low bits   [4][32][4]  bytes; byte j of entry p: element 8p + j in the low nibble, element
//                          8p + 4 + j in the high one. With 8 bits instead [8][32][4]: elements.
//   fifth bit  [32]        words of 32 bits, of 5-bit formats: bit 8j + i is that of element 4i + j
//   two bits   [2][32]     words, of 6-bit formats: bits 8j + 2i and up of word h are those of
//                          element 16h + 4i + j
//
// In U4, U5 and U8 the group goes on with scale [32] and, where there is one, min [32], both fp16.
// In the K formats 8 groups form a span, which ends with what all of them share:
//
//   Q4_K, Q5_K  words [3][32] with the eight 6-bit scales and eight 6-bit mins of a column
//               (SixBitPlace), then fp16 d [32], dmin [32]; scale = d * s, min = -(dmin * m)
//   Q6_K        int8 [16][32], one scale for each 16 elements; fp16 d [32]; scale = d * s

namespace quire {

enum class PackedFormat : uint8_t { kBf16, kU4, kU4Min, kU5, kU5Min, kU8, kQ4K, kQ5K, kQ6K };
inline constexpr int kNumPackedFormats = 9;

inline constexpr int kPanelCols = 32;
inline constexpr int kGroupDepth = 32;  // elements of k with one scale of activations
inline constexpr int kGroupQuads = 8;
inline constexpr int kQuadBytes = 4 * kPanelCols;  // one quad of each column

enum class ScaleKind : uint8_t { kHalf, kSixBits, kInt8 };

// What kernels and packing need to know of a quantised format.
struct QuantFormat {
  int bits = 0;
  int offset = 0;
  ScaleKind scales = ScaleKind::kHalf;
  bool has_min = false;
  int groups_per_span = 1;
  int scale_depth = kGroupDepth;  // elements of k with one scale of weights

  QUIRE_INLINE constexpr int GroupBytes() const { return kPanelCols * kGroupDepth / 8 * bits; }
  QUIRE_INLINE constexpr int ScaleBytes() const {
    switch (scales) {
      case ScaleKind::kHalf:
        return has_min ? 4 * kPanelCols : 2 * kPanelCols;
      case ScaleKind::kSixBits:
        return (12 + 4) * kPanelCols;
      case ScaleKind::kInt8:
        return (16 + 2) * kPanelCols;
    }
    return 0;
  }
  // All multiples of 64.
  QUIRE_INLINE constexpr int SpanBytes() const {
    return groups_per_span * GroupBytes() + ScaleBytes();
  }
};

// REQUIRES: not kBf16.
QUIRE_INLINE constexpr QuantFormat QuantOf(PackedFormat format) {
  switch (format) {
    case PackedFormat::kBf16:
      break;
    case PackedFormat::kU4:
      return {4, 8};
    case PackedFormat::kU4Min:
      return {4, 0, ScaleKind::kHalf, true};
    case PackedFormat::kU5:
      return {5, 16};
    case PackedFormat::kU5Min:
      return {5, 0, ScaleKind::kHalf, true};
    case PackedFormat::kU8:
      return {8, 128};
    case PackedFormat::kQ4K:
      return {4, 0, ScaleKind::kSixBits, true, 8};
    case PackedFormat::kQ5K:
      return {5, 0, ScaleKind::kSixBits, true, 8};
    case PackedFormat::kQ6K:
      return {6, 32, ScaleKind::kInt8, false, 8, 16};
  }
  return {};
}

// Where 6-bit number i of a column lies: scales are 0-7, mins 8-15. Five to a word, from the low
// end; number 15 in the two bits that each word has left.
struct SixBitPlace {
  int word;
  int shift;
};
QUIRE_INLINE constexpr SixBitPlace PlaceOfSixBits(int i) { return {i / 5, i % 5 * 6}; }

// Depth of products in mode bf16x2, and of panels of bf16.
QUIRE_INLINE constexpr int PaddedK(int k) { return k + (k & 1); }
QUIRE_INLINE constexpr int PanelDepth(int k) { return (k + 31) / 32 * 32; }
QUIRE_INLINE constexpr int NumGroups(int k) { return (k + kGroupDepth - 1) / kGroupDepth; }
QUIRE_INLINE constexpr int NumPanels(int n) { return (n + kPanelCols - 1) / kPanelCols; }

// Bytes of one panel of depth k, and of a whole matrix of n columns. A panel starts at a multiple
// of 64 bytes when the matrix does.
QUIRE_INLINE constexpr int64_t PanelBytes(PackedFormat format, int k) {
  if (format == PackedFormat::kBf16) return int64_t{PanelDepth(k)} * kPanelCols * 2;
  const QuantFormat quant = QuantOf(format);
  const int span_depth = quant.groups_per_span * kGroupDepth;
  return int64_t{(k + span_depth - 1) / span_depth} * quant.SpanBytes();
}
QUIRE_INLINE constexpr int64_t PackedBytes(PackedFormat format, int n, int k) {
  return NumPanels(n) * PanelBytes(format, k);
}

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_PACKED_FORMAT_H_
