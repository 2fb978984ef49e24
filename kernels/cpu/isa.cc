#include "kernels/cpu/isa.h"

#include <cpuid.h>
#include <cstdlib>
#include <optional>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "kernels/cpu/bf16_dot_check.h"

namespace quire {
namespace {

// What the processor offers and the operating system saves on a context switch.
struct Features {
  bool avx2 = false;    // AVX2, FMA, F16C
  bool avx512 = false;  // F, BW, VL, DQ
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool amx = false;  // and AMX_TILE, AMX_BF16, AMX_INT8, AVX512_VBMI
};

// Leaf 7, EDX; compilers name them differently.
constexpr uint32_t kAmxBf16Bit = 1u << 22;
constexpr uint32_t kAmxTileBit = 1u << 24;
constexpr uint32_t kAmxInt8Bit = 1u << 25;

constexpr uint64_t kYmmState = 0x6;        // XCR0: SSE and AVX registers
constexpr uint64_t kZmmState = 0xe6;       // and opmask, upper halves, zmm16-31
constexpr uint64_t kTileState = 0x6'0000;  // and tile configuration, tile data

uint64_t EnabledStates() {
  uint32_t low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

Features ReadFeatures() {
  Features features;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return features;
  const uint64_t states = EnabledStates();
  const bool fma_f16c = (c & bit_FMA) && (c & bit_F16C);
  if ((states & kYmmState) != kYmmState || !fma_f16c) return features;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
  const uint32_t max_subleaf = a;
  const uint32_t amx = kAmxTileBit | kAmxBf16Bit | kAmxInt8Bit;
  const bool has_tiles = (d & amx) == amx && (c & bit_AVX512VBMI);
  features.avx2 = b & bit_AVX2;
  if ((states & kZmmState) != kZmmState || !features.avx2) return features;
  features.avx512 =
      (b & bit_AVX512F) && (b & bit_AVX512BW) && (b & bit_AVX512VL) && (b & bit_AVX512DQ);
  features.avx512_vnni = features.avx512 && (c & bit_AVX512VNNI);
  if (!features.avx512_vnni || max_subleaf < 1) return features;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) return features;
  features.avx512_bf16 = a & bit_AVX512BF16;
  features.amx = features.avx512_bf16 && has_tiles && (states & kTileState) == kTileState;
  return features;
}

// Linux gives a process the 8 KiB of tiles only when it asks; where it refuses, or knows nothing of
// them, there is no AMX.
bool TilesArePermitted() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  static const bool permitted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return permitted;
}

const Features& MachineFeatures() {
  static const Features features = ReadFeatures();
  return features;
}

std::optional<CpuIsa> IsaNamed(const std::string& name) {
  for (CpuIsa isa : kAllCpuIsas) {
    if (name == NameOf(isa)) return isa;
  }
  return std::nullopt;
}

}  // namespace

const char* NameOf(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kReference:
      return "reference";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx512Vnni:
      return "avx512vnni";
    case CpuIsa::kAvx512Bf16:
      return "avx512bf16";
    case CpuIsa::kAmx:
      return "amx";
  }
  return "?";
}

bool MachineRuns(CpuIsa isa) {
  const Features& features = MachineFeatures();
  switch (isa) {
    case CpuIsa::kReference:
      return true;
    case CpuIsa::kAvx2:
      return features.avx2;
    case CpuIsa::kAvx512:
      return features.avx512;
    case CpuIsa::kAvx512Vnni:
      return features.avx512_vnni;
    case CpuIsa::kAvx512Bf16:
      return features.avx512_bf16 && Vdpbf16MatchesDefinition();
    case CpuIsa::kAmx:
      return MachineRuns(CpuIsa::kAvx512Bf16) && features.amx && TilesArePermitted() &&
             Tdpbf16MatchesDefinition();
  }
  return false;
}

absl::StatusOr<IsaChoice> DetectCpuIsa() {
  IsaChoice choice;
  if (MachineFeatures().avx512_bf16 && !MachineRuns(CpuIsa::kAvx512Bf16)) {
    choice.note = "VDPBF16PS of this processor adds in another order than mode bf16x2: not used";
  } else if (MachineFeatures().amx && !TilesArePermitted()) {
    choice.note = "the operating system does not permit AMX: not used";
  } else if (MachineFeatures().amx && !MachineRuns(CpuIsa::kAmx)) {
    choice.note = "TDPBF16PS of this processor adds in another order than mode bf16x32: not used";
  }
  const char* wanted = std::getenv("QUIRE_CPU_ISA");
  if (wanted != nullptr && *wanted != '\0') {
    const std::optional<CpuIsa> isa = IsaNamed(wanted);
    if (!isa.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "QUIRE_CPU_ISA=", wanted,
          ": unknown; known are reference, avx2, avx512, avx512vnni, avx512bf16, amx"));
    }
    if (!MachineRuns(*isa)) {
      return absl::FailedPreconditionError(
          absl::StrCat("QUIRE_CPU_ISA=", wanted, ": this machine does not have it"));
    }
    choice.isa = *isa;
    return choice;
  }
  for (CpuIsa isa : kAllCpuIsas) {
    if (MachineRuns(isa)) choice.isa = isa;
  }
  if (choice.isa == CpuIsa::kReference) {
    return absl::ResourceExhaustedError("this processor lacks AVX2, FMA or F16C");
  }
  return choice;
}

}  // namespace quire
