#include "kernels/cpu/bf16_dot_check.h"

#include <cmath>
#include <random>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {
namespace {

constexpr int kRounds = 256;  // of 16 lanes

// Exponents within 2^-10 .. 2^10 of each other, so that sums cancel and round in all ways.
uint16_t RandomBf16(std::mt19937& random) {
  const uint32_t exponent = 117 + random() % 20;
  return static_cast<uint16_t>((random() & 0x807fu) | (exponent << 7));
}

bool CheckLanes() {
  ScopedFlushDenormals flush;
  std::mt19937 random(1);
  for (int round = 0; round < kRounds; ++round) {
    uint16_t a[32], b[32];
    float acc[16], expected[16];
    for (uint16_t& value : a) value = RandomBf16(random);
    for (uint16_t& value : b) value = RandomBf16(random);
    for (int i = 0; i < 16; ++i) {
      acc[i] = FromBf16(RandomBf16(random)) * (1.0f + static_cast<float>(random() % 4096) / 8192);
      const float odd = std::fma(FromBf16(a[2 * i + 1]), FromBf16(b[2 * i + 1]), acc[i]);
      expected[i] = std::fma(FromBf16(a[2 * i]), FromBf16(b[2 * i]), odd);
    }
    AddPairsByVdpbf16(acc, a, b);
    for (int i = 0; i < 16; ++i) {
      if (BitsOfFloat(acc[i]) != BitsOfFloat(expected[i])) return false;
    }
  }
  return true;
}

}  // namespace

bool Vdpbf16MatchesDefinition() {
  static const bool matches = CheckLanes();
  return matches;
}

}  // namespace quire
