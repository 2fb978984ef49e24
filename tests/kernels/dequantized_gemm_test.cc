// Products of quantised weights in mode `bf16x32`: the bits of the product with the same weights
// rounded to bf16, on every instruction set.

#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/reference/gemm.h"
#include "kernels/cpu/reference/unpack.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/amx_emulated.h"
#include "tests/kernels/bits.h"
#include "tests/kernels/kernel_variants.h"
#include "tests/kernels/quantized_weight.h"

namespace quire {
namespace {

constexpr NumericsMode kMode = NumericsMode::kBf16x32;

// [rows, cols], as a file of bf16 would hold them.
std::vector<uint16_t> Rounded(const QuantizedWeight& weight) {
  const int64_t cols = weight.view.cols;
  std::vector<float> row(cols);
  std::vector<uint16_t> rounded;
  for (int64_t i = 0; i < weight.view.rows; ++i) {
    reference::Dequantize(weight.view, i, row.data());
    for (const float x : row) rounded.push_back(RneBf16(x));
  }
  return rounded;
}

class DequantizedGemm : public KernelVariantTest {
 protected:
  const GemmKernels& KernelsOf(DType dtype) const {
    const PackedFormat format = PackedFormatOf(dtype);
    return GetParam().emulated ? isa_amx_emulated::kBf16x32GemmKernels.of[static_cast<int>(format)]
                               : GemmKernelsFor(GetParam().isa, kMode, format);
  }

  // All three kernels on m rows and weights of one shape and type.
  void Check(int m, const QuantizedWeight& w, const QuantizedWeight& up) const {
    const int n = static_cast<int>(w.view.rows), k = static_cast<int>(w.view.cols);
    SCOPED_TRACE(testing::Message()
                 << InfoOf(w.view.dtype).name << " m " << m << " n " << n << " k " << k);
    const GemmKernels& kernels = KernelsOf(w.view.dtype);
    const int64_t lda = ActivationStride(k);
    std::vector<uint16_t> a(static_cast<size_t>(m) * k), padded(m * lda, 0x7fc0);
    std::mt19937 random(3 * m + k);
    const auto values = RandomFloats(a.size(), Values::kUsual, random);
    for (size_t i = 0; i < a.size(); ++i) a[i] = RneBf16(values[i]);
    for (int i = 0; i < m; ++i) std::memcpy(&padded[i * lda], &a[size_t{1} * i * k], 2 * k);
    const auto bias = RandomFloats(n, Values::kUsual, random),
               up_bias = RandomFloats(n, Values::kUsual, random);
    const auto rounded = Rounded(w), rounded_up = Rounded(up);
    QuantizedPanels panels({&w}), gate_up({&w, &up});

    GemmArgs args;
    args.a = padded.data();
    args.lda = lda;
    args.k = k;
    args.n = n;
    args.ldo = n;
    args.w = panels.Aligned();
    std::vector<float> out(static_cast<size_t>(m) * n, -7.0f), expected = out;
    args.out = out.data();
    kernels.store(args, 0, m, 0, NumPanels(n));
    reference::GemmStore(kMode, a.data(), rounded.data(), nullptr, m, n, k, expected.data());
    EXPECT_TRUE(SameBits(out, expected)) << "store";

    out = expected = RandomFloats(out.size(), Values::kUsual, random);
    args.bias = bias.data();
    kernels.add(args, 0, m, 0, NumPanels(n));
    reference::GemmAdd(kMode, a.data(), rounded.data(), bias.data(), m, n, k, expected.data());
    EXPECT_TRUE(SameBits(out, expected)) << "add";

    const int padded_n = n + n % 2;
    std::vector<uint16_t> mlp(static_cast<size_t>(m) * padded_n, 0x4444), expected_mlp(out.size());
    args.w = gate_up.Aligned();
    args.up_bias = up_bias.data();
    args.out_bf16 = mlp.data();
    args.ldo = padded_n;
    kernels.silu_mul(args, 0, m, 0, NumPanels(n));
    reference::GemmSiluMul(kMode, a.data(), rounded.data(), rounded_up.data(), bias.data(),
                           up_bias.data(), m, n, k, expected_mlp.data());
    std::vector<float> wide, expected_wide;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        wide.push_back(FromBf16(mlp[size_t{1} * i * padded_n + j]));
        expected_wide.push_back(FromBf16(expected_mlp[size_t{1} * i * n + j]));
      }
    }
    EXPECT_TRUE(SameBits(wide, expected_wide)) << "silu_mul";
  }
  void Check(DType dtype, int m, int n, int k) const {
    Check(m, QuantizedWeight(dtype, n, k, 31 * n + k), QuantizedWeight(dtype, n, k, 37 * n + k));
  }

  ScopedFlushDenormals flush_;
};

QUIRE_FOR_EACH_VARIANT_OF(DequantizedGemm, kMode);

TEST_P(DequantizedGemm, EveryFormatEqualsTheDefinition) {
  for (const DType dtype : kQuantizedTypes) Check(dtype, 5, 71, 512);
}

// Tiles have 16 rows, two of them are computed together.
TEST_P(DequantizedGemm, EveryNumberOfRowsEqualsTheDefinition) {
  for (const DType dtype : {DType::kQ4_0, DType::kQ6_K}) {
    for (const int m : {1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 65}) Check(dtype, m, 33, 256);
  }
}

// A piece is 32 blocks of k.
TEST_P(DequantizedGemm, TailsEqualTheDefinition) {
  for (const int k : {32, 96, 992, 1024, 1056, 2080}) Check(DType::kQ4_0, 3, 40, k);
  for (const int k : {256, 1024, 1280}) Check(DType::kQ5_K, 3, 40, k);
  for (const int n : {1, 15, 16, 17, 31, 32, 64, 65, 97}) Check(DType::kQ8_0, 2, n, 96);
}

TEST_P(DequantizedGemm, RowsBeyondOneBlockEqualTheDefinition) {
  Check(DType::kQ4_1, 259, 32, 64);
  Check(DType::kQ4_0, 67, 33, 1056);
}

// An element (q, infinity) is an infinity, or a NaN where q is 0; one of a NaN is a NaN.
TEST_P(DequantizedGemm, ScalesThatAreNotFiniteEqualTheDefinition) {
  for (const DType dtype : kQuantizedTypes) {
    QuantizedWeight w(dtype, 40, 512, 1);
    w.SetScale(3, 0x7c00);
    w.SetScale(20, 0xfc00);
    w.SetScale(39, 0x7e00);
    Check(3, w, QuantizedWeight(dtype, 40, 512, 2));
  }
}

}  // namespace
}  // namespace quire
