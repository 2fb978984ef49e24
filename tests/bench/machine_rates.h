#ifndef QUIRE_TESTS_BENCH_MACHINE_RATES_H_
#define QUIRE_TESTS_BENCH_MACHINE_RATES_H_

#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {

// The scale for measurements: what this machine does at best, measured in the same run as what is
// compared with it, because other load and clocks change by the minute.
class MachineRates {
 public:
  // Far beyond the caches of the machines we know, so that what is read comes from memory.
  static constexpr int64_t kPoolBytes = int64_t{768} << 20;
  // kPoolBytes of bf16 values about 1.
  static const uint16_t* Pool();

  // `pool` outlives this. REQUIRES: the machine runs `isa`.
  MachineRates(CpuIsa isa, ThreadPool* pool) : isa_(isa), pool_(pool) {}

  // Seconds on the clock that fits the pool: one thread's own CPU time, so that being set aside
  // does not count, else the time of day.
  double Now() const;
  // One short measurement each; take the best of several.
  double Multiply();       // operations per second, multiply-adds of bf16 pairs in registers
  double MultiplyBytes();  // the same of bytes, for the mode a8g32
  double Read();           // bytes per second from memory

  // The best of `seconds`.
  void MeasureFor(double seconds, double* operations_per_second, double* bytes_per_second);

 private:
  double MultiplyWith(int64_t (*multiply)(int64_t num_rounds, float* sink));

  const CpuIsa isa_;
  ThreadPool* const pool_;
  int64_t read_offset_ = 0;
};

}  // namespace quire

#endif  // QUIRE_TESTS_BENCH_MACHINE_RATES_H_
