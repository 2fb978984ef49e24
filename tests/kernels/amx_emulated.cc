#define QUIRE_ISA isa_amx_emulated
// The emulation stands before what uses it.
// clang-format off
#include "tests/testing/amx_emulator.h"
#include "kernels/cpu/attention_bf16x32_amx.h"
#include "kernels/cpu/gemm_a8g32_amx.h"
#include "kernels/cpu/gemm_bf16x32_amx.h"
#include "tests/kernels/amx_emulated.h"
// clang-format on

namespace quire::isa_amx_emulated {

bool HasTiles() { return AmxEmulator::OfThread().configured(); }

}  // namespace quire::isa_amx_emulated
