#include "kernels/cpu/reference/gemm.h"

#include <cmath>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/math.h"

namespace quire::reference {

float DotBf16x2(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t b_stride, int k) {
  float acc = 0;
  for (int i = 0; i < k; i += 2) {
    const bool has_odd = i + 1 < k;
    const float a_odd = has_odd ? FromBf16(a[(i + 1) * a_stride]) : 0.0f;
    const float b_odd = has_odd ? FromBf16(b[(i + 1) * b_stride]) : 0.0f;
    acc = std::fma(a_odd, b_odd, acc);
    acc = std::fma(FromBf16(a[i * a_stride]), FromBf16(b[i * b_stride]), acc);
  }
  return acc;
}

namespace {

// Row `m` of a times row `n` of w, plus the bias where there is one.
float Element(const uint16_t* a, const uint16_t* w, const float* bias, int m, int n, int k) {
  const float acc = DotBf16x2(a + int64_t{m} * k, 1, w + int64_t{n} * k, 1, k);
  return bias == nullptr ? acc : acc + bias[n];
}

}  // namespace

void GemmStore(const uint16_t* a, const uint16_t* w, const float* bias, int m, int n, int k,
               float* out) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) out[int64_t{i} * n + j] = Element(a, w, bias, i, j, k);
  }
}

void GemmAdd(const uint16_t* a, const uint16_t* w, const float* bias, int m, int n, int k,
             float* out) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) out[int64_t{i} * n + j] += Element(a, w, bias, i, j, k);
  }
}

void GemmSiluMul(const uint16_t* a, const uint16_t* gate, const uint16_t* up,
                 const float* gate_bias, const float* up_bias, int m, int n, int k, uint16_t* out) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      const float g = Element(a, gate, gate_bias, i, j, k);
      const float u = Element(a, up, up_bias, i, j, k);
      out[int64_t{i} * n + j] = RneBf16(Silu(g) * u);
    }
  }
}

}  // namespace quire::reference
