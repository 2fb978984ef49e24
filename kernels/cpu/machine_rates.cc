#include "kernels/cpu/machine_rates.h"

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/machine_peak.h"

namespace quire {

namespace isa_reference {
extern const MachinePeak kMachinePeak;
}
namespace isa_avx2 {
extern const MachinePeak kMachinePeak;
}
namespace isa_avx512 {
extern const MachinePeak kMachinePeak;
}
namespace isa_avx512vnni {
extern const MachinePeak kMachinePeak;
}
namespace isa_avx512bf16 {
extern const MachinePeak kMachinePeak;
}
namespace isa_amx {
extern const MachinePeak kMachinePeak;
}

namespace {

const MachinePeak& PeakFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kReference:
      break;
    case CpuIsa::kAvx2:
      return isa_avx2::kMachinePeak;
    case CpuIsa::kAvx512:
      return isa_avx512::kMachinePeak;
    case CpuIsa::kAvx512Vnni:
      return isa_avx512vnni::kMachinePeak;
    case CpuIsa::kAvx512Bf16:
      return isa_avx512bf16::kMachinePeak;
    case CpuIsa::kAmx:
      return isa_amx::kMachinePeak;
  }
  return isa_reference::kMachinePeak;
}

}  // namespace

absl::StatusOr<MachineRates> MachineRates::Make(CpuIsa isa, ThreadPool* pool) {
  constexpr char kPurpose[] = "measuring what the machine can do";
  if (absl::Status status = CheckMachineHas(kDataBytes, kPurpose); !status.ok()) return status;
  absl::StatusOr<MappedMemory> memory = MappedMemory::Map(kDataBytes, kPurpose);
  if (!memory.ok()) return memory.status();
  auto* const data = reinterpret_cast<uint16_t*>(memory->data());
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  constexpr int64_t kPeriod = 1 << 20;
  for (int64_t i = 0; i < kPeriod; ++i) data[i] = RneBf16(normal(random));
  constexpr int kNumPeriods = static_cast<int>(kDataBytes / (2 * kPeriod));
  pool->Run(kNumPeriods - 1,
            [&](int chunk, int) { std::copy_n(data, kPeriod, data + (chunk + 1) * kPeriod); });
  return MachineRates(isa, pool, *std::move(memory));
}

double MachineRates::Now() const {
  timespec time;
  clock_gettime(pool_->num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double MachineRates::Multiply(NumericsMode mode) {
  if (TakesInt8(mode)) return MultiplyWith(PeakFor(isa_).multiply_bytes);
  const bool has_tiles = isa_ == CpuIsa::kAmx;
  if (GoesByBlocks(mode)) return has_tiles ? MultiplyWith(PeakFor(isa_).multiply) : 0;
  // As products choose: see gemm.cc.
  return MultiplyWith(PeakFor(has_tiles ? CpuIsa::kAvx512 : isa_).multiply);
}

double MachineRates::MultiplyWith(int64_t (*multiply)(int64_t num_rounds, float* sink)) {
  std::vector<float> sinks(16 * pool_->num_threads());
  std::vector<int64_t> operations(pool_->num_threads());
  const double start = Now();
  pool_->Run(pool_->num_threads(),
             [&](int chunk, int) { operations[chunk] = multiply(40000, &sinks[16 * chunk]); });
  return static_cast<double>(std::accumulate(operations.begin(), operations.end(), int64_t{0})) /
         (Now() - start);
}

double MachineRates::Read() {
  constexpr int64_t kChunk = int64_t{1} << 20;
  const int num_chunks = 16 * pool_->num_threads();
  std::vector<float> sinks(num_chunks);
  if (read_offset_ + num_chunks * kChunk > kDataBytes) read_offset_ = 0;
  const auto* data = memory_.data() + read_offset_;
  const double start = Now();
  pool_->Run(num_chunks, [&](int chunk, int) {
    PeakFor(isa_).read(data + chunk * kChunk, kChunk, &sinks[chunk]);
  });
  const double rate = static_cast<double>(num_chunks * kChunk) / (Now() - start);
  read_offset_ += num_chunks * kChunk;
  return rate;
}

}  // namespace quire
