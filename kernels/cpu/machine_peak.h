#ifndef QUIRE_KERNELS_CPU_MACHINE_PEAK_H_
#define QUIRE_KERNELS_CPU_MACHINE_PEAK_H_

#include <stdint.h>

// What a core does at best with one instruction set, reached through MachineRates. Defined by
// machine_peak_<isa>.cc.

namespace quire {

struct MachinePeak {
  // Multiply-adds of bf16 pairs, operands in registers or tiles. Returns the floating-point
  // operations.
  int64_t (*multiply)(int64_t num_rounds, float* sink);
  // The same of bytes, by the instruction that the mode a8g32 is made for: VPDPBUSD or VPMADDUBSW.
  int64_t (*multiply_bytes)(int64_t num_rounds, float* sink);
  // Reads `bytes`, a multiple of 256.
  void (*read)(const void* data, int64_t bytes, float* sink);
};
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_MACHINE_PEAK_H_
