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

// acc[row][column] += a[row] * b[column] over 32 elements of k, by TDPBF16PS. a: bf16 [16, 32];
// b: bf16 [16 pairs of k, 16 columns, 2].
// REQUIRES: the processor has AMX_BF16 and this process may use it.
void AddDotsByTdpbf16(float acc[16 * 16], const uint16_t a[16 * 32], const uint16_t b[16 * 32]);

// Whether TDPBF16PS of this processor computes what mode bf16x32 defines, on 4 096 random lanes.
// Computed once. REQUIRES: as AddDotsByTdpbf16.
bool Tdpbf16MatchesDefinition();

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_BF16_DOT_CHECK_H_
