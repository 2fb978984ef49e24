#ifndef QUIRE_KERNELS_CPU_BF16_DOT_CHECK_H_
#define QUIRE_KERNELS_CPU_BF16_DOT_CHECK_H_

#include <stdint.h>

namespace quire {

// acc[i] += the pair of products of lane i, by VDPBF16PS. a, b: bf16 [16, 2].
// REQUIRES: the processor has AVX512_BF16.
void AddPairsByVdpbf16(float acc[16], const uint16_t a[32], const uint16_t b[32]);

// Whether VDPBF16PS of this processor computes what mode bf16x2 defines (the odd product added
// first, each by one fused multiply-add), on 4 096 random lanes. Computed once.
// REQUIRES: the processor has AVX512_BF16.
bool Vdpbf16MatchesDefinition();

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_BF16_DOT_CHECK_H_
