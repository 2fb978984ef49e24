#include "kernels/cpu/ops.h"

#include "kernels/cpu/isa.h"

namespace quire {

// Defined by ops_<isa>.cc.
namespace isa_reference {
extern const CpuOps kCpuOps;
}
namespace isa_avx2 {
extern const CpuOps kCpuOps;
}
namespace isa_avx512 {
extern const CpuOps kCpuOps;
}
namespace isa_avx512bf16 {
extern const CpuOps kCpuOps;
}

const CpuOps& CpuOpsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kReference:
      break;
    case CpuIsa::kAvx2:
      return isa_avx2::kCpuOps;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
      return isa_avx512::kCpuOps;
    case CpuIsa::kAvx512Bf16:
    case CpuIsa::kAmx:
      return isa_avx512bf16::kCpuOps;
  }
  return isa_reference::kCpuOps;
}

}  // namespace quire
