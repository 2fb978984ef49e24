#include "kernels/cpu/isa.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace quire {
namespace {

class QuireCpuIsa : public testing::Test {
 protected:
  ~QuireCpuIsa() override { unsetenv("QUIRE_CPU_ISA"); }
  void Set(const char* value) { setenv("QUIRE_CPU_ISA", value, 1); }
};

TEST_F(QuireCpuIsa, UnsetMeansTheBestThatIsHere) {
  unsetenv("QUIRE_CPU_ISA");
  if (!MachineRuns(CpuIsa::kAvx2)) GTEST_SKIP() << "this machine lacks avx2";
  const auto choice = DetectCpuIsa();
  ASSERT_TRUE(choice.ok());
  for (CpuIsa isa : kAllCpuIsas) EXPECT_LE(MachineRuns(isa) ? isa : CpuIsa::kAvx2, choice->isa);
  EXPECT_TRUE(MachineRuns(choice->isa));
}

TEST_F(QuireCpuIsa, CapsTheChoice) {
  for (CpuIsa isa : kAllCpuIsas) {
    Set(NameOf(isa));
    const auto choice = DetectCpuIsa();
    ASSERT_EQ(choice.ok(), MachineRuns(isa)) << NameOf(isa);
    if (choice.ok()) {
      EXPECT_EQ(choice->isa, isa);
    }
  }
}

TEST(CpuIsas, AmxComesWithAllBeforeIt) {
  if (!MachineRuns(CpuIsa::kAmx)) GTEST_SKIP() << "this machine lacks amx";
  for (const CpuIsa isa : kAllCpuIsas) EXPECT_TRUE(MachineRuns(isa)) << NameOf(isa);
}

TEST_F(QuireCpuIsa, UnknownNamesAreRefused) {
  Set("avx1024");
  const auto choice = DetectCpuIsa();
  EXPECT_EQ(choice.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(choice.status().message()).find("avx1024"), std::string::npos);
}

}  // namespace
}  // namespace quire
