#ifndef QUIRE_KERNELS_CPU_MACHINE_RATES_H_
#define QUIRE_KERNELS_CPU_MACHINE_RATES_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

#include "kernels/cpu/isa.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/numerics_mode.h"

namespace quire {

// The scale for measurements: what this machine does at best, measured in the same run as what is
// compared with it, because other load and clocks change by the minute. One thread.
class MachineRates {
 public:
  // Far beyond the caches of the machines we know, so that what is read comes from memory.
  static constexpr int64_t kDataBytes = int64_t{512} << 20;

  // `pool` outlives this. RESOURCE_EXHAUSTED where the machine has less memory than kDataBytes.
  // REQUIRES: the machine runs `isa`.
  static absl::StatusOr<MachineRates> Make(CpuIsa isa, ThreadPool* pool);

  // kDataBytes of bf16 values about 1.
  const uint16_t* data() const { return reinterpret_cast<const uint16_t*>(memory_.data()); }
  // Seconds on the clock that fits the pool: one thread's own CPU time, so that being set aside
  // does not count, else the time of day.
  double Now() const;
  // One short measurement each, some 0.1 ms to 5 ms; take the best of several.
  // Operations per second of the instruction that products of `mode` are made for (of quantised
  // weights, where they have one of their own), operands in registers or tiles; 0 where the machine
  // has none.
  double Multiply(NumericsMode mode);
  double Read();  // bytes per second from memory

 private:
  MachineRates(CpuIsa isa, ThreadPool* pool, MappedMemory memory)
      : isa_(isa), pool_(pool), memory_(std::move(memory)) {}

  double MultiplyWith(int64_t (*multiply)(int64_t num_rounds, float* sink));

  CpuIsa isa_;
  ThreadPool* pool_;
  MappedMemory memory_;
  int64_t read_offset_ = 0;
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_MACHINE_RATES_H_
