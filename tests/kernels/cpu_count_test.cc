#include "kernels/cpu/cpu_count.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace quire {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

class CpuQuotaTest : public testing::Test {
 protected:
  CpuQuotaTest()
      : root_(testing::TempDir() + "cpu_quota_" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {}
  ~CpuQuotaTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  const std::string root_;
};

TEST_F(CpuQuotaTest, NoFilesMeanNoQuota) { EXPECT_EQ(CpuQuota(root_), kNone); }

TEST_F(CpuQuotaTest, TheLeastOfAGroupAndThoseAboveItCounts) {
  Write("/proc/self/cgroup", "0::/pods/one");
  Write("/sys/fs/cgroup/pods/one/cpu.max", "max 100000");
  EXPECT_EQ(CpuQuota(root_), kNone);
  Write("/sys/fs/cgroup/pods/cpu.max", "350000 100000");
  EXPECT_EQ(CpuQuota(root_), 3.5);
  Write("/sys/fs/cgroup/pods/one/cpu.max", "50000 100000");
  EXPECT_EQ(CpuQuota(root_), 0.5);
}

TEST_F(CpuQuotaTest, TheMountCountsWhereThePathIsTheHosts) {
  Write("/proc/self/cgroup", "0::/../../only/the/host/sees/this");
  Write("/sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(CpuQuota(root_), 2);
}

TEST_F(CpuQuotaTest, VersionOneHasTwoFiles) {
  Write("/proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a\n1:name=systemd:/");
  Write("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1");
  Write("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CpuQuota(root_), kNone);
  Write("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "400000");
  EXPECT_EQ(CpuQuota(root_), 4);
}

TEST(DefaultNumThreads, IsPositiveAndNoMoreThanTheCores) {
  EXPECT_GE(DefaultNumThreads(), 1);
  EXPECT_LE(DefaultNumThreads(), NumAllowedCores());
}

}  // namespace
}  // namespace quire
