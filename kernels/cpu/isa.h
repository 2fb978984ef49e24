#ifndef QUIRE_KERNELS_CPU_ISA_H_
#define QUIRE_KERNELS_CPU_ISA_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace quire {

// Instruction sets that kernels are compiled for, each with all that stands before it.
enum class CpuIsa : uint8_t {
  kReference,   // plain C++, any machine; for tests, never chosen by itself
  kAvx2,        // AVX2, FMA, F16C: the least that is asked of a machine
  kAvx512,      // AVX-512 F, BW, VL, DQ
  kAvx512Vnni,  // and AVX512_VNNI
  kAvx512Bf16,  // and AVX512_BF16, where VDPBF16PS computes what kernels/numerics.md defines
  kAmx,  // and AMX_BF16, AMX_INT8, AVX512_VBMI, where TDPBF16PS does so and the system permits it
};

constexpr CpuIsa kAllCpuIsas[] = {CpuIsa::kReference,  CpuIsa::kAvx2,       CpuIsa::kAvx512,
                                  CpuIsa::kAvx512Vnni, CpuIsa::kAvx512Bf16, CpuIsa::kAmx};

// "reference", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx".
const char* NameOf(CpuIsa isa);

// Whether this processor and operating system can run code for `isa`. For kAmx the first call asks
// the system for the permission, which then holds for all threads of the process.
bool MachineRuns(CpuIsa isa);

struct IsaChoice {
  CpuIsa isa = CpuIsa::kAvx2;
  std::string note;  // for the log; empty when there is nothing to say
};

// The best instruction set of this machine, or the one that the environment's QUIRE_CPU_ISA names.
// An unknown name there, one that the machine lacks, or a machine below AVX2 is an error. Where
// VDPBF16PS or TDPBF16PS does not compute the definition (4 096 random lanes), what stands before
// it is chosen and that is noted.
absl::StatusOr<IsaChoice> DetectCpuIsa();

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ISA_H_
