#include "kernels/cpu/tile_dot_check.h"

#include <cmath>
#include <random>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {
namespace {

constexpr int kRounds = 16;  // of 256 lanes
constexpr int kSide = 16;
constexpr int kDepth = 32;

// Exponents within 2^-10 .. 2^10 of each other, so that sums cancel and round in all ways.
uint16_t RandomBf16(std::mt19937& random) {
  const uint32_t exponent = 117 + random() % 20;
  return static_cast<uint16_t>((random() & 0x807fu) | (exponent << 7));
}

bool CheckLanes() {
  ScopedFlushDenormals flush;
  std::mt19937 random(1);
  for (int round = 0; round < kRounds; ++round) {
    uint16_t a[kSide * kDepth], b[kSide * kDepth];
    float acc[kSide * kSide], expected[kSide * kSide];
    for (uint16_t& value : a) value = RandomBf16(random);
    for (uint16_t& value : b) value = RandomBf16(random);
    for (int i = 0; i < kSide * kSide; ++i) {
      acc[i] = FromBf16(RandomBf16(random)) * (1.0f + static_cast<float>(random() % 4096) / 8192);
      float sums[2] = {};  // of even and odd k
      for (int k = 0; k < kDepth; ++k) {
        const float x = FromBf16(a[i / kSide * kDepth + k]);
        const float y = FromBf16(b[k / 2 * kDepth + i % kSide * 2 + k % 2]);
        sums[k % 2] = std::fma(x, y, sums[k % 2]);
      }
      expected[i] = acc[i] + (sums[0] + sums[1]);
    }
    AddDotsByTdpbf16(acc, a, b);
    for (int i = 0; i < kSide * kSide; ++i) {
      if (BitsOfFloat(acc[i]) != BitsOfFloat(expected[i])) return false;
    }
  }
  return true;
}

}  // namespace

bool Tdpbf16MatchesDefinition() {
  static const bool matches = CheckLanes();
  return matches;
}

}  // namespace quire
