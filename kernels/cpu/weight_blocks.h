#ifndef QUIRE_KERNELS_CPU_WEIGHT_BLOCKS_H_
#define QUIRE_KERNELS_CPU_WEIGHT_BLOCKS_H_

// Weights of any format as operands of the mode `bf16x32`: blocks of 32 of k and the 32 columns of
// a panel, bf16 [16 pairs of k][32 columns][2]. Panels of bf16 are made of such blocks; elements of
// quantised ones become rne_bf16(fma(u - offset, scale, min)), min being +0 where there is none.

#include <stdint.h>

#include "kernels/cpu/packed_format.h"
#include "kernels/cpu/unrolled.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/weight_groups.h"

namespace quire {
inline namespace QUIRE_ISA {

inline constexpr int kDotDepth = 32;  // elements of k whose products are summed apart
inline constexpr int kBlockElems = kDotDepth * kPanelCols;
inline constexpr int kPairElems = 2 * kPanelCols;  // from one pair of k to the next
// Blocks of a panel that are at hand at a time: they stay in the L2 cache. Whole spans.
inline constexpr int kPieceDots = 32;
static_assert(kDotDepth == kGroupDepth);

// PairMaker turns 16 columns of quads into pairs of bf16. Store(quads, out) writes the two pairs of
// a quad; out: at the first one, of 16 columns. kOneStep: see kHasOneStep.

#if defined(__AVX512VBMI__)

#define QUIRE_UNPACK_INLINE QUIRE_INLINE

// Where the elements of a quad go: those of a pair side by side, so that rounding leaves them where
// they belong. Lane i of half h is element 2 * pair + i % 2 of column 8 * h + i / 2.
struct PairPlaces {
  alignas(64) int32_t column[2][16] = {};
  alignas(64) uint8_t byte[2][2][64] = {};  // [half][pair]: which one becomes byte 1 of a lane

  constexpr PairPlaces() {
    for (int half = 0; half < 2; ++half) {
      for (int lane = 0; lane < 16; ++lane) {
        column[half][lane] = 8 * half + lane / 2;
        for (int pair = 0; pair < 2; ++pair) {
          byte[half][pair][4 * lane + 1] =
              static_cast<uint8_t>(4 * column[half][lane] + 2 * pair + lane % 2);
        }
      }
    }
  }
};
static constexpr PairPlaces kPairPlaces;

template <int kOffset, bool kOneStep>
class PairMaker {
 public:
  QUIRE_INLINE PairMaker(F32x16 scale, F32x16 min) {
    for (int half = 0; half < 2; ++half) {
      const __m512i column = _mm512_load_si512(kPairPlaces.column[half]);
      scale_[half] = _mm512_permutexvar_ps(column, scale.v);
      add_[half] = kOneStep ? _mm512_mul_ps(scale_[half], _mm512_set1_ps(-kZero))
                            : _mm512_permutexvar_ps(column, min.v);
    }
  }
  QUIRE_INLINE void Store(I32x16 quads, uint16_t* out) const {
    Unrolled<2>([&]<int kPair>() __attribute__((always_inline)) {
      const __m512 low = Elements<0, kPair>(quads);
      const __m512 high = Elements<1, kPair>(quads);
      _mm512_storeu_si512(out + kPair * kPairElems, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    });
  }

 private:
  // 2^15 + u: the number of fp32 whose second byte is u.
  static constexpr int32_t kBaseBits = 0x47000000;
  static constexpr float kZero = (1 << 15) + kOffset;

  template <int kHalf, int kPair>
  QUIRE_INLINE __m512 Elements(I32x16 quads) const {
    const __m512i places = _mm512_load_si512(kPairPlaces.byte[kHalf][kPair]);
    const __m512 number = _mm512_castsi512_ps(_mm512_mask_permutexvar_epi8(
        _mm512_set1_epi32(kBaseBits), 0x2222222222222222u, places, quads.v));
    const __m512 q = kOneStep ? number : _mm512_sub_ps(number, _mm512_set1_ps(kZero));
    return _mm512_fmadd_ps(q, scale_[kHalf], add_[kHalf]);
  }

  __m512 scale_[2];
  __m512 add_[2];
};

// fma(2^15 + u, scale, -scale * (2^15 + offset)) is (u - offset) * scale, exactly, since that
// product takes 24 bits at most: scales of fp16 have 11.
template <PackedFormat kFormat>
inline constexpr bool kHasOneStep = QuantOf(kFormat).scales == ScaleKind::kHalf &&
                                    !QuantOf(kFormat).has_min;

#else

// In plain C++ it would take minutes to compile.
#define QUIRE_UNPACK_INLINE __attribute__((noinline))

template <int kOffset, bool>
class PairMaker {
 public:
  QUIRE_INLINE PairMaker(F32x16 scale, F32x16 min) : scale_(scale), min_(min) {}

  QUIRE_UNPACK_INLINE void Store(I32x16 quads, uint16_t* out) const {
    StoreBits(out, Element<0>(quads) | ShiftLeft<16>(Element<1>(quads)));
    StoreBits(out + kPairElems, Element<2>(quads) | ShiftLeft<16>(Element<3>(quads)));
  }

 private:
  template <int kByte>
  QUIRE_INLINE I32x16 Element(I32x16 quads) const {
    const I32x16 u = ShiftRight<8 * kByte>(quads) & BroadcastInt(255);
    return Bf16Bits(Fma(ToFloat(u - BroadcastInt(kOffset)), scale_, min_));
  }

  F32x16 scale_;
  F32x16 min_;
};

template <PackedFormat>
inline constexpr bool kHasOneStep = false;

#endif

// 16 columns of a block.
template <PackedFormat kFormat, bool kOneStep>
QUIRE_INLINE void UnpackColumns(const GroupColumns<kFormat>& columns, uint16_t* out) {
  constexpr QuantFormat kQuant = QuantOf(kFormat);
  constexpr int kScales = GroupColumns<kFormat>::kScales;
  constexpr int kQuads = kGroupQuads / kScales;
  F32x16 min = Zero16();
  if constexpr (kQuant.has_min) min = columns.Min(0);
  Unrolled<kScales>([&]<int kPart>() __attribute__((always_inline)) {
    const PairMaker<kQuant.offset, kOneStep> maker(columns.Scale(kPart, 0), min);
    Unrolled<kQuads>([&]<int i>() __attribute__((always_inline)) {
      constexpr int kQuad = kPart * kQuads + i;
      maker.Store(columns.template Quads<kQuad>(0), out + 2 * kQuad * kPairElems);
    });
  });
}

// Group g of a span. out: its block.
template <PackedFormat kFormat>
QUIRE_UNPACK_INLINE void UnpackBlock(const uint8_t* group, const SpanScales<kFormat>& scales, int g,
                                     uint16_t* out) {
  for (int column = 0; column < kPanelCols; column += 16) {
    const GroupColumns<kFormat> columns = {
        .group = group, .scales = scales, .g = g, .column = column};
    if constexpr (kHasOneStep<kFormat>) {
      // Of an infinite scale it would make NaNs.
      if (!Any(IsNotFinite(columns.Scale(0, 0)))) {
        UnpackColumns<kFormat, true>(columns, out + 2 * column);
        continue;
      }
    }
    UnpackColumns<kFormat, false>(columns, out + 2 * column);
  }
}

// The blocks of a piece: kPieceDots of k of up to two panels.
template <PackedFormat kFormat>
class WeightBlocks {
 public:
  // The piece starts at block `first_dot` of panels that are `panel_bytes` apart.
  QUIRE_INLINE void Begin(const uint8_t* panels, int64_t panel_bytes, int first_dot) {
    panels_ = panels + first_dot / kQuant.groups_per_span * kQuant.SpanBytes();
    panel_bytes_ = panel_bytes;
  }

  // Makes block `dot` of a panel. REQUIRES: blocks of a panel are made one by one, from the first.
  QUIRE_INLINE void Make(int panel, int dot) {
    constexpr int kStride = kQuant.SpanBytes() / kQuant.groups_per_span;
    const int g = dot % kQuant.groups_per_span;
    const uint8_t* const span =
        panels_ + panel * panel_bytes_ + dot / kQuant.groups_per_span * kQuant.SpanBytes();
    FetchAhead<1, kIntoL1>(span + g * kStride, kStride);
    const uint8_t* const scales = span + kQuant.groups_per_span * kQuant.GroupBytes();
    if (g == 0) UnpackScales<kFormat>(scales, &scales_);
    UnpackBlock<kFormat>(span + g * kQuant.GroupBytes(), scales_, g,
                         blocks_ + panel * kPanelElems + dot * kBlockElems);
  }

  // Blocks of a panel follow one another, and panels are PanelElems() apart.
  QUIRE_INLINE const uint16_t* Panel(int panel) const { return blocks_ + panel * kPanelElems; }
  QUIRE_INLINE static int64_t PanelElems() { return kPanelElems; }

 private:
  static constexpr QuantFormat kQuant = QuantOf(kFormat);
  static constexpr int64_t kPanelElems = int64_t{kPieceDots} * kBlockElems;

  const uint8_t* panels_;
  int64_t panel_bytes_;
  SpanScales<kFormat> scales_;
  alignas(64) uint16_t blocks_[2 * kPanelElems];
};

template <>
class WeightBlocks<PackedFormat::kBf16> {
 public:
  QUIRE_INLINE void Begin(const uint8_t* panels, int64_t panel_bytes, int first_dot) {
    blocks_ = reinterpret_cast<const uint16_t*>(panels) + first_dot * kBlockElems;
    panel_elems_ = panel_bytes / 2;
  }
  QUIRE_INLINE void Make(int, int) {}
  QUIRE_INLINE const uint16_t* Panel(int panel) const { return blocks_ + panel * panel_elems_; }
  QUIRE_INLINE int64_t PanelElems() const { return panel_elems_; }

 private:
  const uint16_t* blocks_;
  int64_t panel_elems_;
};

#undef QUIRE_UNPACK_INLINE

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_WEIGHT_BLOCKS_H_
