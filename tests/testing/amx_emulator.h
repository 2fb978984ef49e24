#ifndef QUIRE_TESTS_TESTING_AMX_EMULATOR_H_
#define QUIRE_TESTS_TESTING_AMX_EMULATOR_H_

// The functions of kernels/cpu/amx_tiles.h in plain C++, for sources that include this before any
// kernel. What the processor answers with a fault ends the process, with a message. Not inlined:
// kernels use them at many places.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define QUIRE_AMX_EMULATED
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {
inline namespace QUIRE_ISA {

class AmxEmulator {
 public:
  static AmxEmulator& OfThread() {
    static thread_local AmxEmulator emulator;
    return emulator;
  }

  bool configured() const { return configured_; }

  __attribute__((noinline)) void Configure(const TileConfig& config) {
    Require(config.palette == 1, "palette 1 is configured");
    Require(config.start_row == 0, "rows start at 0");
    for (uint8_t byte : config.reserved) Require(byte == 0, "reserved bytes are zero");
    for (int i = 0; i < 16; ++i) {
      Require(i < kTiles || (config.rows[i] == 0 && config.row_bytes[i] == 0), "there are 8 tiles");
      Require(config.rows[i] <= 16 && config.row_bytes[i] <= 64, "a tile is at most 16 rows of 64");
      Require((config.rows[i] == 0) == (config.row_bytes[i] == 0), "a tile has rows and columns");
    }
    config_ = config;
    configured_ = true;
    std::memset(tiles_, 0, sizeof(tiles_));
  }
  void Release() { configured_ = false; }

  __attribute__((noinline)) void Zero(int tile) {
    RequireTile(tile);
    std::memset(tiles_[tile], 0, sizeof(tiles_[tile]));
  }
  // Zeroes what lies past the tile's columns and rows, as the processor does.
  __attribute__((noinline)) void Load(int tile, const void* from, int64_t stride) {
    Zero(tile);
    for (int row = 0; row < config_.rows[tile]; ++row) {
      std::memcpy(tiles_[tile][row], static_cast<const char*>(from) + row * stride,
                  config_.row_bytes[tile]);
    }
  }
  __attribute__((noinline)) void Store(int tile, void* to, int64_t stride) {
    RequireTile(tile);
    for (int row = 0; row < config_.rows[tile]; ++row) {
      std::memcpy(static_cast<char*>(to) + row * stride, tiles_[tile][row],
                  config_.row_bytes[tile]);
    }
  }

  // TDPBF16PS: it flushes denormals whatever the thread's MXCSR says.
  __attribute__((noinline)) void Multiply(int c, int a, int b) {
    RequireProduct(c, a, b);
    const ScopedFlushDenormals flush;
    for (int row = 0; row < config_.rows[c]; ++row) {
      for (int column = 0; column < config_.row_bytes[c] / 4; ++column) {
        float even = 0;
        float odd = 0;
        for (int pair = 0; pair < config_.rows[b]; ++pair) {
          const uint32_t x = Word(a, row, pair);
          const uint32_t y = Word(b, pair, column);
          even = std::fma(FloatFromBits(x << 16), FloatFromBits(y << 16), even);
          odd = std::fma(FloatFromBits(x & 0xffff0000u), FloatFromBits(y & 0xffff0000u), odd);
        }
        const float sum = even + odd;
        const float result = FloatFromBits(Word(c, row, column)) + sum;
        std::memcpy(&tiles_[c][row][4 * column], &result, sizeof(result));
      }
    }
  }

  // TDPBSSD.
  __attribute__((noinline)) void MultiplyBytes(int c, int a, int b) {
    RequireProduct(c, a, b);
    for (int row = 0; row < config_.rows[c]; ++row) {
      for (int column = 0; column < config_.row_bytes[c] / 4; ++column) {
        uint32_t sum = Word(c, row, column);
        for (int i = 0; i < config_.row_bytes[a]; ++i) {
          const auto x = static_cast<int8_t>(tiles_[a][row][i]);
          const auto y = static_cast<int8_t>(tiles_[b][i / 4][4 * column + i % 4]);
          sum += static_cast<uint32_t>(x * y);
        }
        std::memcpy(&tiles_[c][row][4 * column], &sum, sizeof(sum));
      }
    }
  }

 private:
  static constexpr int kTiles = 8;

  static void Require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "AMX misused: it should hold that %s\n", what);
    std::abort();
  }
  void RequireTile(int tile) const {
    Require(configured_, "tiles are configured, and not released");
    Require(tile >= 0 && tile < kTiles && config_.rows[tile] > 0,
            "a tile that is used has a shape");
  }
  void RequireProduct(int c, int a, int b) const {
    for (int tile : {c, a, b}) {
      RequireTile(tile);
      Require(config_.row_bytes[tile] % 4 == 0, "columns are of 4 bytes");
    }
    Require(c != a && c != b && a != b, "three tiles are multiplied");
    Require(config_.rows[c] == config_.rows[a], "c and a have the same rows");
    Require(config_.row_bytes[c] == config_.row_bytes[b], "c and b have the same columns");
    Require(config_.row_bytes[a] / 4 == config_.rows[b], "b has a row for each pair or quad of a");
  }
  uint32_t Word(int tile, int row, int column) const {
    uint32_t word;
    std::memcpy(&word, &tiles_[tile][row][4 * column], sizeof(word));
    return word;
  }

  bool configured_ = false;
  TileConfig config_;
  uint8_t tiles_[kTiles][16][64] = {};
};

inline void ConfigureTiles(const TileConfig& config) { AmxEmulator::OfThread().Configure(config); }
inline void ReleaseTiles() { AmxEmulator::OfThread().Release(); }
template <int kTile>
void ZeroTile() {
  AmxEmulator::OfThread().Zero(kTile);
}
template <int kTile>
void LoadTile(const void* from, int64_t stride) {
  AmxEmulator::OfThread().Load(kTile, from, stride);
}
template <int kTile>
void StoreTile(void* to, int64_t stride) {
  AmxEmulator::OfThread().Store(kTile, to, stride);
}
template <int kC, int kA, int kB>
void MultiplyTiles() {
  AmxEmulator::OfThread().Multiply(kC, kA, kB);
}
template <int kC, int kA, int kB>
void MultiplyByteTiles() {
  AmxEmulator::OfThread().MultiplyBytes(kC, kA, kB);
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_AMX_EMULATOR_H_
