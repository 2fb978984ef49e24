#include "kernels/cpu/weight_packing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/f16.h"
#include "kernels/cpu/six_bits.h"
#include "kernels/cpu/weight_format.h"

namespace quire {
namespace {

// ---- what a block of a file holds (ggml's formats; reference/unpack.h describes them) ----

void ReadNibbles(const uint8_t* quants, uint8_t* u) {
  for (int i = 0; i < 16; ++i) u[i] = quants[i] & 15;
  for (int i = 0; i < 16; ++i) u[16 + i] = quants[i] >> 4;
}

void AddFifthBits(const uint8_t* bits, uint8_t* u) {
  for (int i = 0; i < 32; ++i) u[i] |= (bits[i / 8] >> i % 8 & 1) << 4;
}

void ReadNibblesOfK(const uint8_t* quants, int group, uint8_t* u) {
  const int shift = group % 2 * 4;
  for (int i = 0; i < 32; ++i) u[i] = quants[group / 2 * 32 + i] >> shift & 15;
}

void ReadQ6K(const uint8_t* block, int group, uint8_t* u) {
  const int half = group / 4;
  const int part = group % 4;
  const uint8_t* const low = block + 64 * half + part % 2 * 32;
  const uint8_t* const high = block + 128 + 32 * half;
  const int shift = part < 2 ? 0 : 4;
  for (int i = 0; i < 32; ++i) u[i] = (low[i] >> shift & 15) | (high[i] >> 2 * part & 3) << 4;
}

// The unsigned numbers of group `group` of a block.
void ReadGroup(DType dtype, const uint8_t* block, int group, uint8_t* u) {
  switch (dtype) {
    case DType::kQ4_0:
      return ReadNibbles(block + 2, u);
    case DType::kQ4_1:
      return ReadNibbles(block + 4, u);
    case DType::kQ5_0:
      ReadNibbles(block + 6, u);
      return AddFifthBits(block + 2, u);
    case DType::kQ5_1:
      ReadNibbles(block + 8, u);
      return AddFifthBits(block + 4, u);
    case DType::kQ8_0:
      for (int i = 0; i < 32; ++i) u[i] = block[2 + i] ^ 0x80;
      return;
    case DType::kQ4_K:
      return ReadNibblesOfK(block + 16, group, u);
    case DType::kQ5_K:
      ReadNibblesOfK(block + 48, group, u);
      for (int i = 0; i < 32; ++i) u[i] |= (block[16 + i] >> group & 1) << 4;
      return;
    case DType::kQ6_K:
      return ReadQ6K(block, group, u);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
      break;
  }
  QUIRE_CHECK(false, "the type is quantised");
}

// ---- how a panel holds it ----

// `group` is at the column's first 4 bytes.
void PutGroup(int bits, const uint8_t* u, uint8_t* group) {
  if (bits == 8) {
    for (int quad = 0; quad < kGroupQuads; ++quad) {
      std::memcpy(group + quad * kQuadBytes, u + 4 * quad, 4);
    }
    return;
  }
  for (int p = 0; p < 4; ++p, group += kQuadBytes) {
    uint32_t quads[2];
    std::memcpy(quads, u + 8 * p, sizeof(quads));
    const uint32_t nibbles = (quads[0] & 0x0f0f0f0fu) | (quads[1] & 0x0f0f0f0fu) << 4;
    std::memcpy(group, &nibbles, sizeof(nibbles));
  }
  if (bits == 4) return;
  const int num_upper = bits - 4;  // 1 or 2 bits above the fourth
  const int quads_per_word = kGroupQuads / num_upper;
  for (int word = 0; word < num_upper; ++word, group += kQuadBytes) {
    for (int j = 0; j < 4; ++j) {
      int byte = 0;
      for (int i = 0; i < quads_per_word; ++i) {
        byte |= u[4 * (word * quads_per_word + i) + j] >> 4 << num_upper * i;
      }
      group[j] = static_cast<uint8_t>(byte);
    }
  }
}

uint8_t GetElement(int bits, const uint8_t* group, int i) {
  const int quad = i / 4;
  const int j = i % 4;
  if (bits == 8) return group[quad * kQuadBytes + j];
  const uint8_t low = group[quad / 2 * kQuadBytes + j] >> quad % 2 * 4 & 15;
  if (bits == 4) return low;
  const int num_upper = bits - 4;
  const int quads_per_word = kGroupQuads / num_upper;
  const uint8_t byte = group[(4 + quad / quads_per_word) * kQuadBytes + j];
  const int upper = byte >> num_upper * (quad % quads_per_word) & ((1 << num_upper) - 1);
  return static_cast<uint8_t>(low | upper << 4);
}

// Words of 32 bits of a column, [3] at a stride of kQuadBytes.
uint32_t GetWord(const uint8_t* words, int i) {
  uint32_t word;
  std::memcpy(&word, words + i * kQuadBytes, sizeof(word));
  return word;
}

uint32_t GetSixBits(const uint8_t* words, int i) {
  if (i < 15) return GetWord(words, PlaceOfSixBits(i).word) >> PlaceOfSixBits(i).shift & 63;
  return GetWord(words, 0) >> 30 | GetWord(words, 1) >> 30 << 2 | GetWord(words, 2) >> 30 << 4;
}

// From the 12 bytes of a Q4_K or Q5_K block.
void PutSixBits(const uint8_t* bytes, uint8_t* words) {
  uint32_t packed[3] = {};
  for (int i = 0; i < 16; ++i) {
    const SixBitPair pair = SixBits(bytes, i % 8);
    const auto number = static_cast<uint32_t>(i < 8 ? pair.scale : pair.min);
    if (i < 15) {
      packed[PlaceOfSixBits(i).word] |= number << PlaceOfSixBits(i).shift;
    } else {
      for (int word = 0; word < 3; ++word) packed[word] |= (number >> 2 * word & 3) << 30;
    }
  }
  for (int word = 0; word < 3; ++word) std::memcpy(words + word * kQuadBytes, &packed[word], 4);
}

// `scales` is at the beginning of the span's scales.
void PutScales(DType dtype, const uint8_t* block, int column, uint8_t* scales) {
  const QuantFormat quant = QuantOf(PackedFormatOf(dtype));
  uint8_t* const half = scales + 2 * column;
  switch (quant.scales) {
    case ScaleKind::kHalf:
      std::memcpy(half, block, 2);
      if (quant.has_min) std::memcpy(half + 2 * kPanelCols, block + 2, 2);
      return;
    case ScaleKind::kSixBits:
      PutSixBits(block + 4, scales + 4 * column);
      std::memcpy(half + 3 * kQuadBytes, block, 2);
      std::memcpy(half + 3 * kQuadBytes + 2 * kPanelCols, block + 2, 2);
      return;
    case ScaleKind::kInt8:
      for (int i = 0; i < 16; ++i) scales[i * kPanelCols + column] = block[192 + i];
      std::memcpy(half + 16 * kPanelCols, block + 208, 2);
      return;
  }
}

float ReadHalf(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof(half));
  return FromF16(half);
}

struct ScaleAndMin {
  float scale;
  float min;  // to be added
};

// Of element i of group `group` of a span.
ScaleAndMin GetScale(QuantFormat quant, const uint8_t* scales, int column, int group, int i) {
  const uint8_t* const half = scales + 2 * column;
  switch (quant.scales) {
    case ScaleKind::kHalf:
      return {ReadHalf(half), quant.has_min ? ReadHalf(half + 2 * kPanelCols) : 0.0f};
    case ScaleKind::kSixBits: {
      const uint8_t* const words = scales + 4 * column;
      const auto s = static_cast<float>(GetSixBits(words, group));
      const auto m = static_cast<float>(GetSixBits(words, 8 + group));
      return {ReadHalf(half + 3 * kQuadBytes) * s,
              -(ReadHalf(half + 3 * kQuadBytes + 2 * kPanelCols) * m)};
    }
    case ScaleKind::kInt8: {
      const auto s = static_cast<int8_t>(scales[(2 * group + i / 16) * kPanelCols + column]);
      return {ReadHalf(half + 16 * kPanelCols) * static_cast<float>(s), 0.0f};
    }
  }
  return {};
}

}  // namespace

void PackBf16Panel(const uint16_t* rows, int64_t row_stride, int num_rows, int k, uint8_t* panel) {
  auto* out = reinterpret_cast<uint16_t*>(panel);
  for (int pair = 0; pair < PanelDepth(k) / 2; ++pair) {
    for (int column = 0; column < kPanelCols; ++column) {
      for (int odd = 0; odd < 2; ++odd) {
        const int k_idx = 2 * pair + odd;
        const bool inside = column < num_rows && k_idx < k;
        *out++ = inside ? rows[column * row_stride + k_idx] : 0;
      }
    }
  }
}

void PackQuantizedPanel(DType dtype, const uint8_t* const* rows, int num_rows, int k,
                        uint8_t* panel) {
  const PackedFormat format = PackedFormatOf(dtype);
  const QuantFormat quant = QuantOf(format);
  const int block_bytes = InfoOf(dtype).block_bytes;
  const int num_spans = k / (quant.groups_per_span * kGroupDepth);
  if (num_rows < kPanelCols) std::memset(panel, 0, PanelBytes(format, k));
  for (int span = 0; span < num_spans; ++span, panel += quant.SpanBytes()) {
    for (int column = 0; column < num_rows; ++column) {
      const uint8_t* const block = rows[column] + int64_t{span} * block_bytes;
      for (int group = 0; group < quant.groups_per_span; ++group) {
        uint8_t u[kGroupDepth];
        ReadGroup(dtype, block, group, u);
        PutGroup(quant.bits, u, panel + group * quant.GroupBytes() + 4 * column);
      }
      PutScales(dtype, block, column, panel + quant.groups_per_span * quant.GroupBytes());
    }
  }
}

void UnpackPackedRow(PackedFormat format, const uint8_t* panels, int n, int k, float* out) {
  const uint8_t* const panel = panels + n / kPanelCols * PanelBytes(format, k);
  const int column = n % kPanelCols;
  if (format == PackedFormat::kBf16) {
    const auto* const elems = reinterpret_cast<const uint16_t*>(panel) + 2 * column;
    for (int i = 0; i < k; ++i) out[i] = FromBf16(elems[i / 2 * (2 * kPanelCols) + i % 2]);
    return;
  }
  const QuantFormat quant = QuantOf(format);
  for (int begin = 0; begin < k; begin += quant.scale_depth) {
    const int group = begin / kGroupDepth;
    const int in_span = group % quant.groups_per_span;
    const uint8_t* const span = panel + int64_t{group / quant.groups_per_span} * quant.SpanBytes();
    const uint8_t* const quads = span + in_span * quant.GroupBytes() + 4 * column;
    const uint8_t* const scales = span + quant.groups_per_span * quant.GroupBytes();
    const int first = begin % kGroupDepth;
    const ScaleAndMin by = GetScale(quant, scales, column, in_span, first);
    for (int i = 0; i < std::min(quant.scale_depth, k - begin); ++i) {
      const int q = GetElement(quant.bits, quads, first + i) - quant.offset;
      out[begin + i] = std::fma(static_cast<float>(q), by.scale, by.min);
    }
  }
}

}  // namespace quire
