#include "kernels/cpu/reference/gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/math.h"
#include "kernels/cpu/reference/unpack.h"

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

float DotBf16x32(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t b_stride, int k) {
  float acc = 0;
  for (int block = 0; block < k; block += 32) {
    float even = 0;
    float odd = 0;
    for (int i = block; i < block + 32; ++i) {
      const float x = i < k ? FromBf16(a[i * a_stride]) : 0.0f;
      const float y = i < k ? FromBf16(b[i * b_stride]) : 0.0f;
      float& sum = i % 2 == 0 ? even : odd;
      sum = std::fma(x, y, sum);
    }
    acc = acc + (even + odd);
  }
  return acc;
}

float DotBf16(NumericsMode mode, const uint16_t* a, int64_t a_stride, const uint16_t* b,
              int64_t b_stride, int k) {
  return GoesByBlocks(mode) ? DotBf16x32(a, a_stride, b, b_stride, k)
                            : DotBf16x2(a, a_stride, b, b_stride, k);
}

namespace {

// Row `m` of a times row `n` of w, plus the bias where there is one.
float Element(NumericsMode mode, const uint16_t* a, const uint16_t* w, const float* bias, int m,
              int n, int k) {
  const float acc = DotBf16(mode, a + int64_t{m} * k, 1, w + int64_t{n} * k, 1, k);
  return bias == nullptr ? acc : acc + bias[n];
}

}  // namespace

void GemmStore(NumericsMode mode, const uint16_t* a, const uint16_t* w, const float* bias, int m,
               int n, int k, float* out) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) out[int64_t{i} * n + j] = Element(mode, a, w, bias, i, j, k);
  }
}

void GemmAdd(NumericsMode mode, const uint16_t* a, const uint16_t* w, const float* bias, int m,
             int n, int k, float* out) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) out[int64_t{i} * n + j] += Element(mode, a, w, bias, i, j, k);
  }
}

void GemmSiluMul(NumericsMode mode, const uint16_t* a, const uint16_t* gate, const uint16_t* up,
                 const float* gate_bias, const float* up_bias, int m, int n, int k, uint16_t* out) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      const float g = Element(mode, a, gate, gate_bias, i, j, k);
      const float u = Element(mode, a, up, up_bias, i, j, k);
      out[int64_t{i} * n + j] = RneBf16(Silu(g) * u);
    }
  }
}

QuantizedRow Quantize(const float* x, int k) {
  QuantizedRow row;
  for (int begin = 0; begin < k; begin += 32) {
    const int end = std::min(k, begin + 32);
    float amax = 0;
    bool finite = true;
    for (int i = begin; i < end; ++i) {
      amax = std::max(amax, std::fabs(x[i]));
      finite = finite && std::isfinite(x[i]);
    }
    const float inverse = 127.0f / amax;
    row.scales.push_back(finite ? amax / 127.0f : std::numeric_limits<float>::quiet_NaN());
    for (int i = begin; i < begin + 32; ++i) {
      const bool zero = i >= k || !finite || !std::isfinite(inverse);
      const float scaled = zero ? 0.0f : std::nearbyintf(x[i] * inverse);
      row.q.push_back(static_cast<int>(std::clamp(scaled, -127.0f, 127.0f)));
    }
  }
  return row;
}

float DotA8g32(const QuantizedRow& a, const WeightView& w, int64_t row) {
  const DTypeInfo info = InfoOf(w.dtype);
  const auto* blocks = reinterpret_cast<const uint8_t*>(w.data) +
                       row * (w.cols / info.block_elems) * info.block_bytes;
  const int scale_depth = w.dtype == DType::kQ6_K ? 16 : 32;
  const bool has_min = w.dtype == DType::kQ4_1 || w.dtype == DType::kQ5_1 ||
                       w.dtype == DType::kQ4_K || w.dtype == DType::kQ5_K;
  const auto weight = [&](int i) {
    return QuantOf(w.dtype, blocks + i / info.block_elems * info.block_bytes, i % info.block_elems);
  };
  float acc = 0;
  for (int begin = 0; begin < w.cols; begin += 32) {
    const float scale_a = a.scales[begin / 32];
    int sum = 0;
    for (int i = begin; i < begin + 32; i += scale_depth) {
      int dot = 0;
      for (int j = i; j < i + scale_depth; ++j) {
        dot += a.q[j] * weight(j).q;
        sum += a.q[j];
      }
      acc = std::fma(scale_a * weight(i).scale, static_cast<float>(dot), acc);
    }
    if (has_min) acc = std::fma(weight(begin).min, scale_a * static_cast<float>(sum), acc);
  }
  return acc;
}

}  // namespace quire::reference
