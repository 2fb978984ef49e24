#include "engine/memory_budget.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace quire {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A made-up /proc and /sys/fs/cgroup.
class MemoryBudgetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/memory_budget_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    Write("/proc/meminfo", "MemTotal: 25165824 kB\nMemAvailable: 16777216 kB\n");  // 16 GiB
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(MemoryBudgetTest, WithoutCgroupsTheMachineDecides) {
  EXPECT_EQ(MemoryBudgetAt(root_).available_bytes, 16 * kGiB);
  EXPECT_EQ(MemoryBudgetAt(root_).cgroup_limit_bytes, kNoMemoryLimit);
}

TEST_F(MemoryBudgetTest, VersionTwoLimitCountsWithoutInactivePageCache) {
  Write("/proc/self/cgroup", "0::/pod\n");
  Write("/sys/fs/cgroup/pod/memory.max", "8589934592\n");
  Write("/sys/fs/cgroup/pod/memory.current", "3221225472\n");
  Write("/sys/fs/cgroup/pod/memory.stat", "anon 5\ninactive_file 1073741824\n");
  EXPECT_EQ(MemoryBudgetAt(root_).available_bytes, 6 * kGiB);
  EXPECT_EQ(MemoryBudgetAt(root_).cgroup_limit_bytes, 8 * kGiB);
}

TEST_F(MemoryBudgetTest, ALimitOfAnAncestorBinds) {
  Write("/proc/self/cgroup", "0::/pod/container\n");
  Write("/sys/fs/cgroup/pod/container/memory.max", "max\n");
  Write("/sys/fs/cgroup/pod/container/memory.current", "1\n");
  Write("/sys/fs/cgroup/pod/memory.max", "2147483648\n");
  Write("/sys/fs/cgroup/pod/memory.current", "0\n");
  EXPECT_EQ(MemoryBudgetAt(root_).available_bytes, 2 * kGiB);
}

TEST_F(MemoryBudgetTest, InsideANamespaceTheRootOfTheMountIsTheContainer) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "1073741824\n");
  Write("/sys/fs/cgroup/memory.current", "0\n");
  EXPECT_EQ(MemoryBudgetAt(root_).available_bytes, kGiB);
}

TEST_F(MemoryBudgetTest, VersionOneLimitCounts) {
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/x\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4294967296\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "2147483648\n");
  Write("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 1073741824\n");
  EXPECT_EQ(MemoryBudgetAt(root_).available_bytes, 3 * kGiB);
}

TEST_F(MemoryBudgetTest, AGroupOverItsLimitLeavesNothing) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "1000\n");
  Write("/sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(MemoryBudgetAt(root_).available_bytes, 0);
}

TEST(DefaultKvCacheBytesTest, IsAQuarterButFourGibibytesAtMost) {
  EXPECT_EQ(DefaultKvCacheBytes(8 * kGiB), 2 * kGiB);
  EXPECT_EQ(DefaultKvCacheBytes(64 * kGiB), 4 * kGiB);
}

}  // namespace
}  // namespace quire
