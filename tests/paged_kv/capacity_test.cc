#include "paged_kv/capacity.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "paged_kv/kv_layout.h"

namespace quire {
namespace {

using testing::ElementsAre;

KvModel Model(int32_t layers, int32_t kv_heads, int32_t head_dim) {
  return {
      .num_layers = layers, .num_kv_heads = kv_heads, .head_dim = head_dim, .layer_windows = {}};
}

TEST(CapacityTest, BytesOfKnownModelsAreExact) {
  const KvModel mha = Model(32, 32, 128);  // 4096 hidden
  EXPECT_EQ(KvBytes(mha, 2048, 32), 34'359'738'368);
  EXPECT_EQ(KvBytes(Model(32, 8, 128), 32'768, 1), 4'294'967'296);
  EXPECT_EQ(KvBytesPerToken(Model(80, 8, 128)), 327'680);
  EXPECT_EQ(KvBytesPerToken(Model(80, 64, 128)), 8 * 327'680) << "its MHA";
  EXPECT_EQ(KvBytesPerToken(Model(32, 1, 128)) * 32, KvBytesPerToken(mha)) << "MQA";
  EXPECT_EQ(KvBytesPerToken(Model(30, 3, 64)), 23'040) << "SmolLM2-135M";
}

TEST(CapacityTest, HeadDimIsPaddedAsStored) {
  EXPECT_EQ(KvBytesPerToken(Model(32, 32, 80)), 2 * 32 * 32 * 96 * 2);
  EXPECT_EQ(StoredHeadDim(64), 64);
  EXPECT_EQ(StoredHeadDim(65), 96);
}

TEST(CapacityTest, WindowLayersKeepTheirWindow) {
  KvModel model = Model(4, 1, 32);
  model.layer_windows = {0, 100, 100, 100};
  EXPECT_EQ(KvBytes(model, 1000, 2), (1000 + 3 * 100) * 128 * 2);
  EXPECT_EQ(KvBytes(model, 50, 1), 50 * KvBytesPerToken(model));
}

TEST(KvLayoutTest, UniformModelHasOneGroupWithAllLayers) {
  const KvLayout layout = MakeKvLayout(Model(30, 3, 64), 32);
  ASSERT_EQ(layout.groups.size(), 1u);
  EXPECT_EQ(layout.groups[0].layers.size(), 30u);
  EXPECT_EQ(layout.block_bytes, 32 * 23'040);
  EXPECT_EQ(layout.index_in_group[29], 29);
}

TEST(KvLayoutTest, GroupsOfDifferentSpansHaveBlocksOfTheSameBytes) {
  KvModel model = Model(30, 4, 64);
  model.layer_windows.assign(30, 512);
  for (int layer = 5; layer < 30; layer += 6) model.layer_windows[layer] = 0;  // 5 full, 25 not
  const KvLayout layout = MakeKvLayout(model, 16);
  EXPECT_EQ(layout.layers_per_block, 5);
  EXPECT_THAT(layout.GroupWindows(), ElementsAre(0, 512, 512, 512, 512, 512));
  EXPECT_EQ(layout.block_bytes, 5 * 2 * 4 * 16 * 64 * 2);
  EXPECT_EQ(layout.group_of_layer[5], 0);
  EXPECT_EQ(layout.group_of_layer[0], 1);
  EXPECT_EQ(layout.index_in_group[6], 0 + 5 % 5) << "the sixth layer with a window starts a group";
}

TEST(KvLayoutTest, UnevenSpansLeaveAsLittleUnusedAsTheyCan) {
  KvModel model = Model(31, 4, 64);
  model.layer_windows.assign(31, 512);
  for (int layer = 0; layer < 5; ++layer) model.layer_windows[layer] = 0;  // 5 full, 26 not
  const KvLayout layout = MakeKvLayout(model, 16);
  EXPECT_EQ(layout.layers_per_block, 3);
  EXPECT_EQ(layout.groups.size(), 2u + 9u);
  size_t num_layers = 0;
  for (const KvGroup& group : layout.groups) num_layers += group.layers.size();
  EXPECT_EQ(num_layers, 31u);
}

TEST(CapacityTest, BlocksAreCountedByGroup) {
  const std::vector<int32_t> windows = {0, 9};
  EXPECT_EQ(BlocksAtMost(windows, 4, 5, 1), 2 + 2);
  EXPECT_EQ(GroupBlocksAtMost(9, 4, 1000, 1), 3) << "9 positions from a block's last slot";
  EXPECT_EQ(GroupBlocksAtMost(9, 4, 1000, 4), 4);
  EXPECT_EQ(GroupBlocksAtMost(1, 4, 1000, 1), 1);
  EXPECT_EQ(LongestSequence({{0}}, 4, 10, 64, 1'000'000), 40);
  EXPECT_EQ(LongestSequence({{9}}, 4, 3, 1, 1'000'000), 1'000'000) << "a window never fills it";
  EXPECT_EQ(LongestSequence({{0, 9}}, 4, 10, 1, 1'000'000), 28);
}

TEST(CapacityTest, WindowBlocksAreTheMostThatAnyAlignmentTouches) {
  for (int32_t window = 1; window < 12; ++window) {
    for (int32_t chunk = 1; chunk < 9; ++chunk) {
      int64_t most = 0;
      for (int32_t first = 200; first < 208; ++first) {
        const int32_t begin = first - window + 1;
        most = std::max<int64_t>(most, (first + chunk - 1) / 4 - begin / 4 + 1);
      }
      EXPECT_EQ(GroupBlocksAtMost(window, 4, 1'000'000, chunk), most) << window << " " << chunk;
    }
  }
}

TEST(CapacityTest, PlanSaysWhatFitsAndWhichFlagToChange) {
  const KvLayout layout = MakeKvLayout(Model(32, 8, 128), 32);  // 4 MiB a block
  const KvCapacity plan = PlanKvCapacity(layout, int64_t{4} << 30, 2000, 32, 512);
  EXPECT_EQ(plan.num_blocks, 1024);
  EXPECT_EQ(plan.num_tokens, 32'768);
  EXPECT_EQ(plan.blocks_per_seq, 63);
  EXPECT_EQ(plan.seqs_that_fit, 16);
  EXPECT_EQ(plan.bytes_needed, int64_t{63} * 32 * (4 << 20));
  EXPECT_EQ(plan.advice,
            "16 of 32 sequences of 2000 tokens fit in 4 GiB of KV cache; --kv-cache-bytes 7.9 GiB "
            "holds them all, or --max-model-len 1024 with the memory there is");
  EXPECT_EQ(PlanKvCapacity(layout, plan.bytes_needed, 2000, 32, 512).advice, "");
}

}  // namespace
}  // namespace quire
