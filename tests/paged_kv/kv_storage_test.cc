#include "paged_kv/kv_storage.h"

#include <atomic>

#include "gtest/gtest.h"

#include "tests/testing/event.h"
#include "tests/testing/fake_backend.h"

namespace quire {
namespace {

// Notes what is allocated and touched.
class TouchedBackend : public FakeBackend {
 public:
  TouchedBackend() : FakeBackend(nullptr) {}
  absl::Status AllocateKv(const KvSpec& its_spec) override {
    spec = its_spec;
    return status;
  }
  void TouchKv(int begin, int end) override {
    EXPECT_EQ(begin, touched.load()) << "ascending, without gaps";
    touched = end;
  }
  KvSpec spec;
  absl::Status status;
  std::atomic<int> touched{0};
};

KvLayout Layout() {
  return MakeKvLayout({.num_layers = 30, .num_kv_heads = 3, .head_dim = 64, .layer_windows = {}},
                      32);
}

TEST(KvStorageTest, SpecSaysWhatTheLayoutSays) {
  KvModel model{.num_layers = 4, .num_kv_heads = 2, .head_dim = 64, .layer_windows = {0, 9, 0, 9}};
  const KvLayout layout = MakeKvLayout(model, 16);
  const KvSpec spec = MakeKvSpec(layout, 5);
  EXPECT_EQ(spec.block_bytes, 2 * 2 * 2 * 16 * 64 * 2);
  EXPECT_EQ(spec.num_blocks, 5);
  ASSERT_EQ(spec.groups.size(), 2u);
  EXPECT_EQ(spec.groups[1].window, 9);
  EXPECT_EQ(spec.groups[1].num_layers, 2);
  EXPECT_EQ(spec.group_of_layer, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(spec.index_in_group, (std::vector<int>{0, 0, 1, 1}));
}

TEST(KvStorageTest, BackgroundTouchesTheRestAndTellsOfEachSlice) {
  TouchedBackend backend;
  auto storage = KvStorage::Open(Layout(), 1000, &backend);
  ASSERT_TRUE(storage.ok());
  EXPECT_EQ(backend.spec.num_blocks, 1000);
  EXPECT_EQ((*storage)->touched_blocks(), 0);
  (*storage)->TouchNow(3);
  EXPECT_EQ((*storage)->touched_blocks(), 3);
  Event done;
  (*storage)->StartTouching([&] {
    if (backend.touched == 1000) done.Notify();
  });
  ASSERT_TRUE(done.Wait());
  EXPECT_EQ((*storage)->touched_blocks(), 1000);
}

TEST(KvStorageTest, ClosingEndsTheTouching) {
  TouchedBackend backend;
  auto storage = KvStorage::Open(Layout(), 1'000'000, &backend);
  ASSERT_TRUE(storage.ok());
  Event begun;
  (*storage)->StartTouching([&] {
    if (!begun.HasHappened()) begun.Notify();
  });
  ASSERT_TRUE(begun.Wait());
  storage->reset();
  EXPECT_GT(backend.touched, 0);
}

TEST(KvStorageTest, PausedTouchingGoesOnWhenItMay) {
  TouchedBackend backend;
  auto storage = KvStorage::Open(Layout(), 1000, &backend);
  ASSERT_TRUE(storage.ok());
  (*storage)->PauseTouching(true);
  Event done;
  (*storage)->StartTouching([&] {
    if (backend.touched == 1000) done.Notify();
  });
  EXPECT_EQ(backend.touched, 0) << "paused before it began: nothing is touched, ever";
  (*storage)->PauseTouching(false);
  ASSERT_TRUE(done.Wait());
}

TEST(KvStorageTest, ClosingEndsAPause) {
  TouchedBackend backend;
  auto storage = KvStorage::Open(Layout(), 1000, &backend);
  ASSERT_TRUE(storage.ok());
  (*storage)->PauseTouching(true);
  (*storage)->StartTouching([] {});
  storage->reset();
  EXPECT_EQ(backend.touched, 0);
}

TEST(KvStorageTest, MemoryThatCannotBeHadIsAnError) {
  TouchedBackend backend;
  backend.status = absl::ResourceExhaustedError("no memory for KV");
  EXPECT_EQ(KvStorage::Open(Layout(), 10, &backend).status(), backend.status);
}

}  // namespace
}  // namespace quire
