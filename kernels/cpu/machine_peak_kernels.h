#ifndef QUIRE_KERNELS_CPU_MACHINE_PEAK_KERNELS_H_
#define QUIRE_KERNELS_CPU_MACHINE_PEAK_KERNELS_H_

#include <stdint.h>

#include "kernels/cpu/machine_peak.h"
#include "kernels/cpu/vec16.h"
#if defined(__AMX_BF16__)
#include "kernels/cpu/amx_products.h"
#endif

// The functions of machine_peak.h, for the instruction set that the including file, one per set, is
// compiled for.

namespace quire {
inline namespace QUIRE_ISA {

#if defined(__AMX_BF16__)

static int64_t MultiplyInRegisters(int64_t num_rounds, float* sink) {
  alignas(64) uint16_t ones[kTileSide * kTileRowBytes / 2];
  for (uint16_t& x : ones) x = static_cast<uint16_t>(0x3f80 + (num_rounds & 1));
  alignas(64) float sums[4 * kTileSide * kTileSide];
  ConfigureProducts(2 * kTileSide);
  ZeroSums<true>();
  LoadTile<4>(ones, kTileRowBytes);
  LoadTile<5>(ones, kTileRowBytes);
  LoadTile<6>(ones, kTileRowBytes);
  LoadTile<7>(ones, kTileRowBytes);
  for (int64_t round = 0; round < num_rounds; ++round) {
    MultiplyTiles<0, 4, 6>();
    MultiplyTiles<1, 4, 7>();
    MultiplyTiles<2, 5, 6>();
    MultiplyTiles<3, 5, 7>();
  }
  StoreSums<true>(sums, 2 * kTileSide);
  ReleaseTiles();
  *sink = sums[0];
  return num_rounds * 4 * kTileSide * kTileSide * 32 * 2;
}

#else

static int64_t MultiplyInRegisters(int64_t num_rounds, float* sink) {
#if defined(__AVX512F__)
  constexpr int kAccumulators = 16;
#else
  constexpr int kAccumulators = 6;
#endif
  F32x16 acc[kAccumulators];
#pragma GCC unroll 16
  for (int i = 0; i < kAccumulators; ++i) {
    acc[i] = ToFloat(Iota16() + BroadcastInt(16 * i));  // all different: none can be shared
  }
  const I32x16 x = BroadcastInt(0x3f803f00 + static_cast<int32_t>(num_rounds & 1));
  const I32x16 y = BroadcastInt(0x3f003f80);
  for (int64_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kAccumulators; ++i) acc[i] = FmaPairs(acc[i], x, y);
  }
  F32x16 sum = Zero16();
#pragma GCC unroll 16
  for (int i = 0; i < kAccumulators; ++i) sum = sum + acc[i];
  *sink = SumLanes(sum);
  constexpr int kOperationsPerLane = 4;
  return num_rounds * kAccumulators * 16 * kOperationsPerLane;
}

#endif

static int64_t MultiplyBytesInRegisters(int64_t num_rounds, float* sink) {
#if defined(__AVX512VNNI__)
  constexpr int kAccumulators = 16;
  __m512i acc[kAccumulators];
#pragma GCC unroll 16
  for (int i = 0; i < kAccumulators; ++i) acc[i] = _mm512_set1_epi32(i);
  const __m512i x = _mm512_set1_epi32(static_cast<int32_t>(0x03020100 + num_rounds));
  for (int64_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kAccumulators; ++i) acc[i] = _mm512_dpbusd_epi32(acc[i], x, x);
  }
  __m512i sum = acc[0];
#pragma GCC unroll 16
  for (int i = 1; i < kAccumulators; ++i) sum = _mm512_xor_si512(sum, acc[i]);
  *sink = static_cast<float>(_mm512_cvtsi512_si32(sum));
  return num_rounds * kAccumulators * 128;
#elif defined(__AVX2__)
  constexpr int kAccumulators = 12;
  __m256i acc[kAccumulators];
#pragma GCC unroll 12
  for (int i = 0; i < kAccumulators; ++i) acc[i] = _mm256_set1_epi32(i);
  const __m256i x = _mm256_set1_epi32(static_cast<int32_t>(0x03020100 + num_rounds));
  for (int64_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) {
      acc[i] = _mm256_maddubs_epi16(acc[i], x);
      asm("" : "+x"(acc[i]));
    }
  }
  __m256i sum = acc[0];
#pragma GCC unroll 12
  for (int i = 1; i < kAccumulators; ++i) sum = _mm256_xor_si256(sum, acc[i]);
  *sink = static_cast<float>(_mm256_cvtsi256_si32(sum));
  return num_rounds * kAccumulators * 64;
#else
  constexpr int kLanes = 64;
  int32_t acc[kLanes] = {};
  uint8_t x[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = static_cast<uint8_t>(num_rounds + i);
  for (int64_t round = 0; round < num_rounds; ++round) {
    for (int i = 0; i < kLanes; ++i) acc[i] += x[i] * static_cast<int8_t>(x[i]);
    asm("" : "+m"(x));
  }
  int32_t sum = 0;
  for (const int32_t lane : acc) sum ^= lane;
  *sink = static_cast<float>(sum);
  return num_rounds * kLanes * 2;
#endif
}

static void ReadMemory(const void* data, int64_t bytes, float* sink) {
  const auto* p = static_cast<const float*>(data);
  F32x16 acc[4] = {Zero16(), Zero16(), Zero16(), Zero16()};
  for (int64_t i = 0; i < bytes / 4; i += 64) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) acc[j] = acc[j] + Load(p + i + 16 * j);
  }
  *sink = SumLanes((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

// One definition for each instruction set: one source of each includes this file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const MachinePeak kMachinePeak = {MultiplyInRegisters, MultiplyBytesInRegisters, ReadMemory};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_MACHINE_PEAK_KERNELS_H_
