#include "kernels/cpu/bf16_dot_check.h"
#include "kernels/cpu/vec16.h"

namespace quire {

void AddPairsByVdpbf16(float acc[16], const uint16_t a[32], const uint16_t b[32]) {
  const I32x16 pairs_a = LoadInt(reinterpret_cast<const int32_t*>(a));
  const I32x16 pairs_b = LoadInt(reinterpret_cast<const int32_t*>(b));
  Store(acc, FmaPairs(Load(acc), pairs_a, pairs_b));
}

}  // namespace quire
