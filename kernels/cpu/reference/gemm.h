#ifndef QUIRE_KERNELS_CPU_REFERENCE_GEMM_H_
#define QUIRE_KERNELS_CPU_REFERENCE_GEMM_H_

#include <cstdint>
#include <vector>

#include "kernels/numerics_mode.h"
#include "kernels/tensor.h"

// The definitions of the matrix products of all modes. Plain scalar code; FTZ and DAZ must be set
// in the calling thread. Matrices are row-major as in a file: no panels.

namespace quire::reference {

// sum over k of a[k] * b[k], in the order of the mode: starts at +0; per pair of k, ascending, the
// odd product is added first. An odd k is completed by a zero product. Elements of a and b are
// `a_stride` and `b_stride` apart.
float DotBf16x2(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t b_stride, int k);

// The same in the order of mode `bf16x32`: blocks of 32 of k, ascending; in a block the products of
// even k and those of odd k are summed apart, each by fma ascending from +0, and acc = acc +
// (even + odd). The last block is completed by zero products.
float DotBf16x32(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t b_stride, int k);

// The product of bf16 operands in `mode`: that of bf16x32 or that of bf16x2.
float DotBf16(NumericsMode mode, const uint16_t* a, int64_t a_stride, const uint16_t* b,
              int64_t b_stride, int k);

// out = a * w^T, plus bias[n] where bias is not null, by DotBf16. a: bf16 [m, k]; w: bf16 [n, k];
// out: [m, n].
void GemmStore(NumericsMode mode, const uint16_t* a, const uint16_t* w, const float* bias, int m,
               int n, int k, float* out);

// out = out + (a * w^T, plus bias).
void GemmAdd(NumericsMode mode, const uint16_t* a, const uint16_t* w, const float* bias, int m,
             int n, int k, float* out);

// out = rne_bf16(silu(g) * u), g = a * gate^T plus gate_bias, u = a * up^T plus up_bias.
// gate, up: bf16 [n, k]; out: bf16 [m, n].
void GemmSiluMul(NumericsMode mode, const uint16_t* a, const uint16_t* gate, const uint16_t* up,
                 const float* gate_bias, const float* up_bias, int m, int n, int k, uint16_t* out);

// ---- a8g32 ----

// Activations of one row in int8, by groups of 32; k is completed by zeros. amax is the largest
// magnitude of the group's x.
//   scale = amax / 127; q = clamp(rne(x * (127 / amax)), -127, 127), all 0 where 127 / amax is not
//   finite. A NaN or an infinity among x: scale is NaN, all q are 0.
struct QuantizedRow {
  std::vector<int> q;         // [k rounded up to a multiple of 32]
  std::vector<float> scales;  // [q.size() / 32]
};
QuantizedRow Quantize(const float* x, int k);  // x: [k]

// The product of `a` with row `row` of a quantised weight whose type has elements (q, scale, min):
// acc = +0; per group of 32, ascending: for each of its scales, acc = fma(scale_a * scale,
// float(sum of q_a * q), acc) over the elements of that scale; then, where the type has mins,
// acc = fma(min, scale_a * float(sum of q_a), acc).
float DotA8g32(const QuantizedRow& a, const WeightView& w, int64_t row);

}  // namespace quire::reference

#endif  // QUIRE_KERNELS_CPU_REFERENCE_GEMM_H_
