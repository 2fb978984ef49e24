#ifndef QUIRE_TESTS_KERNELS_AMX_EMULATED_H_
#define QUIRE_TESTS_KERNELS_AMX_EMULATED_H_

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/gemm_kernels.h"

// The kernels for AMX, compiled with an emulation of its instructions
// (tests/testing/amx_emulator.h): they run on any machine.

namespace quire::isa_amx_emulated {

extern const GemmKernelsByFormat kBf16x32GemmKernels;
extern const GemmKernelsByFormat kQuantizedGemmKernels;
extern const AttentionKernels kBf16x32AttentionKernels;

// Whether this thread has tiles configured: no kernel may leave them so.
bool HasTiles();

}  // namespace quire::isa_amx_emulated

#endif  // QUIRE_TESTS_KERNELS_AMX_EMULATED_H_
