#ifndef QUIRE_KERNELS_CPU_REFERENCE_GEMM_H_
#define QUIRE_KERNELS_CPU_REFERENCE_GEMM_H_

#include <cstdint>

// The definition of the matrix products of mode `bf16x2`. Plain scalar code; FTZ and DAZ must be
// set in the calling thread. Matrices are row-major as in a file: no panels.

namespace quire::reference {

// sum over k of a[k] * b[k], in the order of the mode: starts at +0; per pair of k, ascending, the
// odd product is added first. An odd k is completed by a zero product. Elements of a and b are
// `a_stride` and `b_stride` apart.
float DotBf16x2(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t b_stride, int k);

// out = a * w^T, plus bias[n] where bias is not null. a: bf16 [m, k]; w: bf16 [n, k];
// out: [m, n].
void GemmStore(const uint16_t* a, const uint16_t* w, const float* bias, int m, int n, int k,
               float* out);

// out = out + (a * w^T, plus bias).
void GemmAdd(const uint16_t* a, const uint16_t* w, const float* bias, int m, int n, int k,
             float* out);

// out = rne_bf16(silu(g) * u), g = a * gate^T plus gate_bias, u = a * up^T plus up_bias.
// gate, up: bf16 [n, k]; out: bf16 [m, n].
void GemmSiluMul(const uint16_t* a, const uint16_t* gate, const uint16_t* up,
                 const float* gate_bias, const float* up_bias, int m, int n, int k, uint16_t* out);

}  // namespace quire::reference

#endif  // QUIRE_KERNELS_CPU_REFERENCE_GEMM_H_
