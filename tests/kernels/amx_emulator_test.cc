#include "tests/testing/amx_emulator.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/gemm.h"

namespace quire {
namespace {

TileConfig ThreeTiles() {
  TileConfig config;
  for (int tile = 0; tile < 3; ++tile) {
    config.rows[tile] = 16;
    config.row_bytes[tile] = 64;
  }
  return config;
}

class AmxEmulatorTest : public testing::Test {
 protected:
  ~AmxEmulatorTest() override { ReleaseTiles(); }

  alignas(64) float c_[256] = {};
  alignas(64) uint16_t a_[512] = {};
  alignas(64) uint16_t b_[512] = {};
};

TEST_F(AmxEmulatorTest, MultipliesAsTheModeIsDefined) {
  for (int i = 0; i < 512; ++i) {
    a_[i] = RneBf16(static_cast<float>(i % 37 - 18) * 0.37f);
    b_[i] = RneBf16(static_cast<float>(i % 41 - 20) * 0.29f);
  }
  ConfigureTiles(ThreeTiles());
  ZeroTile<0>();
  LoadTile<1>(a_, 64);
  LoadTile<2>(b_, 64);
  MultiplyTiles<0, 1, 2>();
  StoreTile<0>(c_, 64);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) {
      std::vector<uint16_t> w(32);
      for (int k = 0; k < 32; ++k) w[k] = b_[k / 2 * 32 + 2 * column + k % 2];
      EXPECT_EQ(BitsOfFloat(c_[row * 16 + column]),
                BitsOfFloat(reference::DotBf16x32(&a_[row * 32], 1, w.data(), 1, 32)));
    }
  }
}

// Here MXCSR does not ask for it.
TEST_F(AmxEmulatorTest, DenormalsAreFlushedWhateverTheThreadDoes) {
  a_[0] = 0x0040;       // a denormal
  b_[0] = 0x7f00;       // large
  a_[32 + 0] = 0x1000;  // tiny: the product is a denormal
  b_[2] = 0x2b80;
  c_[17] = FloatFromBits(0x00400000);  // a denormal
  ConfigureTiles(ThreeTiles());
  LoadTile<0>(c_, 64);
  LoadTile<1>(a_, 64);
  LoadTile<2>(b_, 64);
  MultiplyTiles<0, 1, 2>();
  StoreTile<0>(c_, 64);
  EXPECT_EQ(BitsOfFloat(c_[0]), 0u);
  EXPECT_EQ(BitsOfFloat(c_[17]), 0u);
}

using AmxEmulatorDeathTest = AmxEmulatorTest;

TEST_F(AmxEmulatorDeathTest, TilesAreUsedBetweenConfigurationAndRelease) {
  EXPECT_DEATH(ZeroTile<0>(), "configured, and not released");
  ConfigureTiles(ThreeTiles());
  ReleaseTiles();
  EXPECT_DEATH(LoadTile<0>(c_, 64), "configured, and not released");
}

TEST_F(AmxEmulatorDeathTest, TilesAreUsedWithinTheirShape) {
  ConfigureTiles(ThreeTiles());
  EXPECT_DEATH(ZeroTile<3>(), "has a shape");
  TileConfig config = ThreeTiles();
  config.rows[1] = 3;
  ConfigureTiles(config);
  EXPECT_DEATH((MultiplyTiles<0, 1, 2>()), "same rows");
  config = ThreeTiles();
  config.row_bytes[1] = 32;
  ConfigureTiles(config);
  EXPECT_DEATH((MultiplyTiles<0, 1, 2>()), "a row for each pair");
}

TEST_F(AmxEmulatorDeathTest, ConfigurationsAreThoseOfThePalette) {
  TileConfig config = ThreeTiles();
  config.palette = 2;
  EXPECT_DEATH(ConfigureTiles(config), "palette 1");
  config = ThreeTiles();
  config.rows[2] = 17;
  EXPECT_DEATH(ConfigureTiles(config), "at most 16 rows");
  config = ThreeTiles();
  config.rows[2] = 0;
  EXPECT_DEATH(ConfigureTiles(config), "rows and columns");
}

}  // namespace
}  // namespace quire
