#include "kernels/cpu/bf16_dot_check.h"

#include <cmath>
#include <random>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {
namespace {

constexpr int kNumLanes = 4096;

// Exponents within 2^-10 .. 2^10 of each other, so that sums cancel and round in all ways.
uint16_t RandomBf16(std::mt19937& random) {
  const uint32_t exponent = 117 + random() % 20;
  return static_cast<uint16_t>((random() & 0x807fu) | (exponent << 7));
}

// More bits than a bf16 has.
float RandomSum(std::mt19937& random) {
  return FromBf16(RandomBf16(random)) * (1.0f + static_cast<float>(random() % 4096) / 8192);
}

// One instruction has kLanes sums and two operands of kElems numbers. add(acc, a, b) is the
// instruction, lane(i, sum, a, b) the definition of what becomes of sum i.
template <int kLanes, int kElems, typename Add, typename Lane>
bool Agree(Add add, Lane lane) {
  ScopedFlushDenormals flush;
  std::mt19937 random(1);
  for (int round = 0; round < kNumLanes / kLanes; ++round) {
    uint16_t a[kElems], b[kElems];
    float acc[kLanes], expected[kLanes];
    for (uint16_t& value : a) value = RandomBf16(random);
    for (uint16_t& value : b) value = RandomBf16(random);
    for (int i = 0; i < kLanes; ++i) {
      acc[i] = RandomSum(random);
      expected[i] = lane(i, acc[i], a, b);
    }
    add(acc, a, b);
    for (int i = 0; i < kLanes; ++i) {
      if (BitsOfFloat(acc[i]) != BitsOfFloat(expected[i])) return false;
    }
  }
  return true;
}

float PairOfBf16x2(int i, float sum, const uint16_t* a, const uint16_t* b) {
  const float odd = std::fma(FromBf16(a[2 * i + 1]), FromBf16(b[2 * i + 1]), sum);
  return std::fma(FromBf16(a[2 * i]), FromBf16(b[2 * i]), odd);
}

float BlockOfBf16x32(int i, float sum, const uint16_t* a, const uint16_t* b) {
  constexpr int kSide = 16;
  constexpr int kDepth = 32;
  float sums[2] = {};  // of even and odd k
  for (int k = 0; k < kDepth; ++k) {
    const float x = FromBf16(a[i / kSide * kDepth + k]);
    const float y = FromBf16(b[k / 2 * kDepth + i % kSide * 2 + k % 2]);
    sums[k % 2] = std::fma(x, y, sums[k % 2]);
  }
  return sum + (sums[0] + sums[1]);
}

}  // namespace

bool Vdpbf16MatchesDefinition() {
  static const bool matches = Agree<16, 32>(AddPairsByVdpbf16, PairOfBf16x2);
  return matches;
}

bool Tdpbf16MatchesDefinition() {
  static const bool matches = Agree<16 * 16, 16 * 32>(AddDotsByTdpbf16, BlockOfBf16x32);
  return matches;
}

}  // namespace quire
