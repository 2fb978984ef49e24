#ifndef QUIRE_KERNELS_CPU_ROPE_H_
#define QUIRE_KERNELS_CPU_ROPE_H_

#include <stdint.h>

#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// One head: out = rne_bf16 of x rotated by pairs (i, i + half), half = head_dim / 2:
//   out[i] = fma(-x[i + half], sin[i], x[i] * cos[i])
//   out[i + half] = fma(x[i], sin[i], x[i + half] * cos[i])
// x: [head_dim]; cos, sin: [half]; out: bf16 [padded_head_dim], the end filled with zeros.
inline void RotateHead(const float* x, const float* cos, const float* sin, int head_dim,
                       int padded_head_dim, uint16_t* out) {
  const int half = head_dim / 2;
  for (int i = 0; i < half; i += 16) {
    const int n = half - i < 16 ? half - i : 16;
    const F32x16 low = LoadN(x + i, n);
    const F32x16 high = LoadN(x + half + i, n);
    const F32x16 c = LoadN(cos + i, n);
    const F32x16 s = LoadN(sin + i, n);
    StoreBf16N(out + i, NegFma(high, s, low * c), n);
    StoreBf16N(out + half + i, Fma(low, s, high * c), n);
  }
  for (int i = head_dim; i < padded_head_dim; ++i) out[i] = 0;
}

// out = rne_bf16(x), [cols], then zeros up to padded_cols.
inline void RoundRow(const float* x, int cols, int padded_cols, uint16_t* out) {
  for (int i = 0; i < cols; i += 16) {
    const int n = cols - i < 16 ? cols - i : 16;
    StoreBf16N(out + i, LoadN(x + i, n), n);
  }
  for (int i = cols; i < padded_cols; ++i) out[i] = 0;
}

// out = x, bf16 [cols] to fp32.
inline void WidenRow(const uint16_t* x, int cols, float* out) {
  for (int i = 0; i < cols; i += 16) {
    const int n = cols - i < 16 ? cols - i : 16;
    StoreN(out + i, LoadBf16N(x + i, n), n);
  }
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ROPE_H_
