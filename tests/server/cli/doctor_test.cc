// What `quire doctor` makes of facts. Texts of the kernel are as proc(5) and its documentation have
// them.

#include <cstdlib>
#include <limits>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <arpa/inet.h>
#include <netinet/in.h>

#include "kernels/cpu/isa.h"
#include "server/cli/doctor/machine_checks.h"
#include "server/cli/doctor/model_checks.h"
#include "server/cli/doctor/port_checks.h"
#include "server/cli/doctor/self_test.h"
#include "server/cli/doctor/self_test_model.h"
#include "server/cli/doctor/version_checks.h"
#include "tests/testing/temp_dir.h"

namespace quire::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Status = Finding::Status;

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(FindingTest, IsALineAndARemedyBelow) {
  EXPECT_EQ(ToText(Ok("memory", "8 GiB"), false), "ok       memory      8 GiB\n");
  EXPECT_EQ(ToText(Problem("port", "taken\nby whom", "take another", ExitCode::kResources), false),
            "problem  port        taken by whom\n                     -> take another\n");
  EXPECT_THAT(ToText(Warning("cpu", "slow", "buy"), true), HasSubstr("\x1b[33mwarning"));
}

TEST(FindingTest, TheFirstProblemDecidesTheExitCode) {
  const Finding warning = Warning("a", "b", "c");
  EXPECT_EQ(CodeOf({Ok("a", "b"), warning}), ExitCode::kOk);
  EXPECT_EQ(CodeOf({warning, Problem("a", "b", "c", ExitCode::kResources),
                    Problem("a", "b", "c", ExitCode::kModelFiles)}),
            ExitCode::kResources);
}

CpuFacts Cpu(int num_threads, int num_cores, double quota) {
  return {.instruction_sets = {"avx2", "avx512"},
          .instruction_set = "avx512",
          .numerics_mode = "bf16x2",
          .note = "",
          .num_threads = num_threads,
          .num_cores = num_cores,
          .cpu_quota = quota};
}

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

TEST(CpuFindingTest, SaysWhatIsUsed) {
  const Finding finding = CpuFinding(Cpu(4, 4, kNoQuota));
  EXPECT_EQ(finding.status, Status::kOk);
  EXPECT_EQ(finding.seen,
            "has avx2, avx512; kernels use avx512, numerics bf16x2; 4 threads on 4 cores, no CPU "
            "quota");
}

TEST(CpuFindingTest, MoreThreadsThanTheQuotaOrTheCoresIsAWarning) {
  EXPECT_EQ(CpuFinding(Cpu(2, 4, 2.5)).status, Status::kOk);
  const Finding quota = CpuFinding(Cpu(4, 4, 2.5));
  EXPECT_EQ(quota.status, Status::kWarning);
  EXPECT_THAT(quota.seen, HasSubstr("a CPU quota of 2.5"));
  EXPECT_THAT(quota.remedy, HasSubstr("--threads 2, or grant 4 CPUs"));
  EXPECT_EQ(CpuFinding(Cpu(1, 4, 0.5)).status, Status::kWarning);
  const Finding cores = CpuFinding(Cpu(8, 4, kNoQuota));
  EXPECT_EQ(cores.status, Status::kWarning);
  EXPECT_THAT(cores.remedy, HasSubstr("--threads 4"));
}

TEST(CpuFindingTest, AProcessorThatCannotIsAProblem) {
  const Finding lacks = CpuFinding(absl::ResourceExhaustedError("this processor lacks AVX2"));
  EXPECT_EQ(lacks.status, Status::kProblem);
  EXPECT_EQ(lacks.code, ExitCode::kResources);
  const Finding asked = CpuFinding(absl::FailedPreconditionError("QUIRE_CPU_ISA=x: unknown"));
  EXPECT_EQ(asked.code, ExitCode::kUsage);
  EXPECT_THAT(asked.remedy, HasSubstr("QUIRE_CPU_ISA"));
}

constexpr char kMeminfo[] =
    "MemTotal:       16777216 kB\n"
    "MemFree:         1048576 kB\n"
    "MemAvailable:    8388608 kB\n"
    "SwapTotal:       4194304 kB\n"
    "SwapFree:        4190208 kB\n"
    "CommitLimit:    12582912 kB\n"
    "Committed_AS:   11534336 kB\n"
    "HugePages_Total:       3\n";

TEST(MemoryFindingTest, MeminfoIsReadByKey) {
  EXPECT_EQ(MeminfoBytes(kMeminfo, "MemTotal"), 16 * kGiB);
  EXPECT_EQ(MeminfoBytes(kMeminfo, "HugePages_Total"), 3);
  EXPECT_EQ(MeminfoBytes(kMeminfo, "Mem"), std::nullopt);
  EXPECT_EQ(MeminfoBytes("MemTotal: many kB\n", "MemTotal"), std::nullopt);
  EXPECT_EQ(MeminfoBytes("", "MemTotal"), std::nullopt);
}

MemoryFacts Memory(int64_t available, int64_t limit) {
  return {.budget = {.available_bytes = available, .cgroup_limit_bytes = limit},
          .default_kv_cache_bytes = available / 4};
}

TEST(MemoryFindingTest, SaysWhatThereIs) {
  const Finding finding =
      MemoryFinding(Memory(4 * kGiB, 6 * kGiB), {.meminfo = kMeminfo, .overcommit = "0\n"}, 0);
  EXPECT_EQ(finding.status, Status::kOk);
  EXPECT_EQ(finding.seen,
            "16 GiB RAM, cgroup limit 6 GiB, 4 GiB available; KV cache 1 GiB by default; swap in "
            "use 4 MiB of 4 GiB; overcommit 0");
}

TEST(MemoryFindingTest, VersionOneWritesANumberForNoLimit) {
  const MemoryFacts memory = Memory(4 * kGiB, 9223372036854771712);
  EXPECT_THAT(MemoryFinding(memory, {.meminfo = kMeminfo, .overcommit = "0\n"}, 0).seen,
              HasSubstr("cgroup limit none"));
}

TEST(MemoryFindingTest, MoreKvThanThereIsIsAProblem) {
  const Finding finding = MemoryFinding(Memory(4 * kGiB, kNoMemoryLimit),
                                        {.meminfo = kMeminfo, .overcommit = "1\n"}, 5 * kGiB);
  EXPECT_EQ(finding.status, Status::kProblem);
  EXPECT_EQ(finding.code, ExitCode::kResources);
  EXPECT_THAT(finding.remedy, HasSubstr("--kv-cache 2048MiB"));
}

TEST(MemoryFindingTest, SwapInUseIsAWarning) {
  std::string meminfo = kMeminfo;
  meminfo.replace(meminfo.find("4190208"), 7, "2097152");  // 2 GiB of 16 are swapped out
  const Finding finding =
      MemoryFinding(Memory(4 * kGiB, kNoMemoryLimit), {.meminfo = meminfo, .overcommit = "0"}, 0);
  EXPECT_EQ(finding.status, Status::kWarning);
  EXPECT_THAT(finding.seen, HasSubstr("swap in use 2 GiB of 4 GiB"));
}

TEST(MemoryFindingTest, StrictOvercommitBelowTheKvCacheIsAWarning) {
  const MemoryTexts texts = {.meminfo = kMeminfo, .overcommit = "2\n"};  // 1 GiB to promise
  EXPECT_EQ(MemoryFinding(Memory(4 * kGiB, kNoMemoryLimit), texts, kGiB).status, Status::kOk);
  const Finding finding = MemoryFinding(Memory(4 * kGiB, kNoMemoryLimit), texts, 2 * kGiB);
  EXPECT_EQ(finding.status, Status::kWarning);
  EXPECT_THAT(finding.remedy, HasSubstr("vm.overcommit_memory=0"));
}

TEST(HugePagesFindingTest, TheWordInBracketsCounts) {
  EXPECT_EQ(HugePagesFinding("[always] madvise never\n").status, Status::kOk);
  EXPECT_EQ(HugePagesFinding("always [madvise] never\n").status, Status::kOk);
  const Finding never = HugePagesFinding("always madvise [never]\n");
  EXPECT_EQ(never.status, Status::kWarning);
  EXPECT_THAT(never.remedy, HasSubstr("transparent_hugepage/enabled"));
  EXPECT_EQ(HugePagesFinding("").status, Status::kOk);
}

TEST(OpenFilesFindingTest, TheHardLimitCounts) {
  const Finding fine = OpenFilesFinding({.rlim_cur = 1024, .rlim_max = 4096});
  EXPECT_EQ(fine.status, Status::kOk);
  EXPECT_EQ(fine.seen, "limit 1024, which serve raises to 4096");
  EXPECT_EQ(OpenFilesFinding({.rlim_cur = 1024, .rlim_max = 4095}).status, Status::kWarning);
  EXPECT_EQ(OpenFilesFinding({.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY}).seen,
            "limit none");
}

TEST(VersionFindingsTest, VersionsAreComparedAsNumbers) {
  EXPECT_TRUE(IsBefore("1.51.1", 1, 53));
  EXPECT_TRUE(IsBefore("1.9.0", 1, 53));
  EXPECT_TRUE(IsBefore("0.60", 1, 53));
  EXPECT_FALSE(IsBefore("1.53.0", 1, 53));
  EXPECT_FALSE(IsBefore("1.100.0", 1, 53));
  EXPECT_FALSE(IsBefore("2.1.0", 1, 53));
  EXPECT_FALSE(IsBefore("unknown", 1, 53));
}

TEST(VersionFindingsTest, AnOldGrpcIsAWarningWhereOthersCanReachIt) {
  const auto warns = [](const char* version, const char* listen) {
    for (const Finding& finding : VersionFindings({{"grpc", version}}, listen)) {
      if (finding.status == Status::kWarning) return true;
    }
    return false;
  };
  EXPECT_TRUE(warns("1.51.1", "0.0.0.0:50051"));
  EXPECT_FALSE(warns("1.51.1", "127.0.0.1:50051"));
  EXPECT_FALSE(warns("1.53.2", "0.0.0.0:50051"));
}

// A port of the loopback on which somebody listens.
class TakenPort {
 public:
  TakenPort() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~TakenPort() { Free(); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;

  void Free() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  const std::string& address() const { return address_; }

 private:
  int fd_;
  std::string address_;
};

TEST(PortFindingsTest, APortThatIsTakenIsAProblemOfItsFlag) {
  TakenPort taken;
  const std::vector<Finding> findings =
      PortFindings({{"--listen", "127.0.0.1:0"}, {"--metrics-listen", taken.address()}});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].status, Status::kOk);
  EXPECT_EQ(findings[1].status, Status::kProblem);
  EXPECT_EQ(findings[1].code, ExitCode::kResources);
  EXPECT_THAT(findings[1].seen, HasSubstr("--metrics-listen " + taken.address()));
  taken.Free();
  EXPECT_EQ(
      PortFindings({{"--listen", "127.0.0.1:0"}, {"--metrics-listen", taken.address()}})[1].status,
      Status::kOk);
}

TEST(PortFindingsTest, TheFlagsMayBeInEachOthersWay) {
  TakenPort once;
  once.Free();
  const std::vector<Finding> findings =
      PortFindings({{"--listen", once.address()}, {"--metrics-listen", once.address()}});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].status, Status::kOk);
  EXPECT_EQ(findings[1].status, Status::kProblem);
}

TEST(PortFindingsTest, WhatIsNoAddressOfThisMachineIsAProblem) {
  // RFC 5737: documentation has it, no machine.
  EXPECT_EQ(PortFindings({{"--listen", "192.0.2.1:0"}})[0].code, ExitCode::kResources);
  EXPECT_EQ(PortFindings({{"--listen", "127.0.0.1"}})[0].code, ExitCode::kUsage);
  EXPECT_EQ(PortFindings({{"--listen", "localhost:0"}}).size(), 1U);
  EXPECT_EQ(PortFindings({{"--listen", "localhost:0"}})[0].status, Status::kOk);
}

TEST(FilesOfModelTest, AreTheShardsOrTheFolders) {
  EXPECT_THAT(FilesOfModel("m.gguf"), ElementsAre("m.gguf"));
  EXPECT_THAT(FilesOfModel("d/m-00001-of-00002.gguf"),
              ElementsAre("d/m-00001-of-00002.gguf", "d/m-00002-of-00002.gguf"));
  const TempDir folder;
  folder.Write("model.safetensors", "a");
  folder.Write("config.json", "b");
  folder.Write("README.md", "c");
  EXPECT_THAT(FilesOfModel(folder.path()),
              ElementsAre(folder.Path("config.json"), folder.Path("model.safetensors")));
}

TEST(Sha256OfFileTest, IsThatOfFips180) {
  const TempDir folder;
  // The examples of FIPS 180-2, appendix B.1 and B.3.
  EXPECT_EQ(*Sha256OfFile(folder.Write("abc", "abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(*Sha256OfFile(folder.Write("a", std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_THAT(std::string(Sha256OfFile(folder.Path("none")).status().message()),
              HasSubstr(folder.Path("none")));
}

TEST(SelfTestTest, IsAsExpectedOnEveryInstructionSet) {
  for (const CpuIsa isa : kAllCpuIsas) {
    if (!MachineRuns(isa)) continue;
    setenv("QUIRE_CPU_ISA", NameOf(isa), 1);
    for (const int num_threads : {1, 3}) {
      const Finding finding = SelfTestFinding(SelfTestModel(kSelfTestSeed), num_threads);
      EXPECT_EQ(finding.status, Status::kOk) << NameOf(isa) << ": " << finding.seen;
    }
  }
  unsetenv("QUIRE_CPU_ISA");
}

TEST(SelfTestTest, AnotherModelIsAMismatchThatNamesThePosition) {
  const Finding finding = SelfTestFinding(SelfTestModel(kSelfTestSeed + 1), 1);
  EXPECT_EQ(finding.status, Status::kProblem);
  EXPECT_EQ(finding.code, ExitCode::kInternal);
  EXPECT_THAT(finding.seen, HasSubstr("token 0 of 16 is "));
  EXPECT_THAT(finding.seen, HasSubstr("expected 39"));
}

TEST(SelfTestTest, AFaultAnywhereInTheWeightsIsFound) {
  constexpr size_t kPart = 4096;
  const std::string model = SelfTestModel(kSelfTestSeed);
  // From behind: before the weights are a few hundred bytes of something else.
  for (size_t at = model.size() - kPart; at > kPart; at -= kPart) {
    std::string damaged = model;
    for (size_t i = at + 1; i < at + kPart; i += 2) damaged[i] ^= '\x80';  // signs
    const Finding finding = SelfTestFinding(damaged, 1);
    EXPECT_EQ(finding.code, ExitCode::kInternal) << "signs from byte " << at << " on";
    EXPECT_THAT(finding.seen, HasSubstr(" of 16 is "));
  }
}

TEST(SelfTestTest, AnEngineThatDoesNotLoadIsNoPass) {
  const Finding finding = SelfTestFinding("no model", 1);
  EXPECT_EQ(finding.status, Status::kProblem);
  EXPECT_EQ(finding.code, ExitCode::kInternal);
  EXPECT_THAT(finding.seen, HasSubstr("did not run"));
}

}  // namespace
}  // namespace quire::cli
