// Products of quantised weights, and the quantisation of activations, against their definitions.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/reference/gemm.h"
#include "kernels/cpu/reference/math.h"
#include "kernels/cpu/reference/unpack.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/amx_emulated.h"
#include "tests/kernels/bits.h"
#include "tests/kernels/kernel_variants.h"
#include "tests/kernels/quantized_weight.h"

namespace quire {
namespace {

// What activations are made of.
enum class Rows { kUsual, kLargest, kOdd };

// [rows, cols].
std::vector<float> RandomRows(int rows, int cols, Rows kind, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(rows) * cols);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = normal(random);
    // All q are 127 or -127: the largest sums there can be.
    if (kind == Rows::kLargest) x[i] = random() % 8 == 0 ? -1.0f : 1.0f;
    if (kind == Rows::kOdd) {
      const uint32_t group = static_cast<uint32_t>(i) / 32 % 8;
      if (group == 1) x[i] = std::copysign(0.0f, x[i]);
      if (group == 2) x[i] *= 0x1p-126f;  // about the smallest normal numbers, and below
      if (group == 3 && i % 32 == 5) x[i] = INFINITY;
      if (group == 4 && i % 32 == 31) x[i] = NAN;
      if (group == 5) x[i] = std::copysign(3e38f, x[i]);
      if (group == 6) x[i] *= 1e-37f;  // 127 / amax is about the largest number there is
    }
  }
  return x;
}

// Rows as a product reads them.
struct Operand {
  Operand(const CpuOps& ops, const std::vector<float>& x, int m, int k) {
    const int64_t stride = ActivationStride(k);
    q.resize(m * stride);
    groups.resize(m * (stride / kGroupDepth));
    rows = {q.data(), groups.data(), stride, stride / kGroupDepth};
    for (int i = 0; i < m; ++i) {
      ops.quantize_row(&x[static_cast<size_t>(i) * k], k, rows.q + i * stride,
                       rows.groups + i * rows.group_stride);
    }
  }
  std::vector<int8_t> q;
  std::vector<RowGroup> groups;
  QuantizedRows rows;
};

const CpuOps& OpsOf(const KernelVariant& variant) {
  return CpuOpsFor(variant.emulated ? CpuIsa::kReference : variant.isa);
}

const GemmKernels& KernelsOf(const KernelVariant& variant, PackedFormat format) {
  return variant.emulated ? isa_amx_emulated::kQuantizedGemmKernels.of[static_cast<int>(format)]
                          : GemmKernelsFor(variant.isa, variant.mode, format);
}

class QuantizedGemmTest : public KernelVariantTest {
 protected:
  const CpuOps& ops() const { return OpsOf(GetParam()); }
};

QUIRE_FOR_EACH_VARIANT_OF(QuantizedGemmTest, NumericsMode::kA8g32);

TEST_P(QuantizedGemmTest, ActivationsEqualTheDefinition) {
  for (const Rows kind : {Rows::kUsual, Rows::kLargest, Rows::kOdd}) {
    for (const int cols : {1, 15, 16, 17, 31, 32, 33, 64, 224, 250}) {
      const auto x = RandomRows(1, cols, kind, 7 * cols);
      const Operand operand(ops(), x, 1, cols);
      const reference::QuantizedRow expected = reference::Quantize(x.data(), cols);
      for (size_t i = 0; i < expected.q.size(); ++i) {
        ASSERT_EQ(operand.q[i], expected.q[i]) << "cols " << cols << " element " << i;
      }
      for (size_t g = 0; g < expected.scales.size(); ++g) {
        const RowGroup& group = operand.groups[g];
        int sum = 0, half = 0;
        for (int i = 0; i < 32; ++i) {
          sum += expected.q[g * 32 + i];
          if (i < 16) half += expected.q[g * 32 + i];
        }
        ASSERT_TRUE(SameBits(group.scale, expected.scales[g])) << "cols " << cols << " group " << g;
        ASSERT_EQ(group.sum, sum);
        ASSERT_EQ(group.sum_of_half, half);
        ASSERT_TRUE(SameBits(group.scaled_sum, group.scale * static_cast<float>(sum)));
      }
    }
  }
}

// The closed form: amax / 127 is the step, and no element is further than half a step from its own.
TEST_P(QuantizedGemmTest, ActivationsAreWithinHalfAStep) {
  const auto x = RandomRows(1, 320, Rows::kUsual, 1);
  const Operand operand(ops(), x, 1, 320);
  for (int i = 0; i < 320; ++i) {
    const float step = operand.groups[i / 32].scale;
    EXPECT_LE(std::fabs(x[i] - step * static_cast<float>(operand.q[i])), step * 0.5001f);
  }
}

// All three kernels on a weight [n, k] of `dtype` and m rows.
void CheckShape(const KernelVariant& variant, DType dtype, int m, int n, int k, Rows kind) {
  SCOPED_TRACE(testing::Message() << InfoOf(dtype).name << " m " << m << " n " << n << " k " << k);
  const uint32_t seed = 1009 * m + 31 * n + k;
  const auto x = RandomRows(m, k, kind, seed);
  const Operand operand(OpsOf(variant), x, m, k);
  const QuantizedWeight w(dtype, n, k, seed + 1), up(dtype, n, k, seed + 2);
  QuantizedPanels panels({&w}), gate_up({&w, &up});
  const GemmKernels& kernels = KernelsOf(variant, PackedFormatOf(dtype));
  std::vector<float> bias(n), up_bias(n), before(static_cast<size_t>(m) * n);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (auto* values : {&bias, &up_bias, &before}) {
    for (float& value : *values) value = normal(random);
  }

  std::vector<float> store(before.size(), -7.0f), add = before;
  const int padded_n = n + n % 2;
  std::vector<uint16_t> silu(static_cast<size_t>(m) * padded_n, 0x4444);
  std::vector<float> wide_silu(before.size());
  GemmArgs args;
  args.quantized = operand.rows;
  args.k = k;
  args.n = n;
  args.ldo = n;
  args.w = panels.Aligned();
  args.out = store.data();
  kernels.store(args, 0, m, 0, NumPanels(n));
  args.bias = bias.data();
  args.out = add.data();
  kernels.add(args, 0, m, 0, NumPanels(n));
  args.up_bias = up_bias.data();
  args.w = gate_up.Aligned();
  args.out_bf16 = silu.data();
  args.ldo = padded_n;
  kernels.silu_mul(args, 0, m, 0, NumPanels(n));
  args.out_bf16 = nullptr;
  args.out = wide_silu.data();
  args.ldo = n;
  kernels.silu_mul(args, 0, m, 0, NumPanels(n));

  for (int i = 0; i < m; ++i) {
    const reference::QuantizedRow row = reference::Quantize(&x[static_cast<size_t>(i) * k], k);
    for (int j = 0; j < n; ++j) {
      const size_t at = static_cast<size_t>(i) * n + j;
      const float dot = reference::DotA8g32(row, w.view, j);
      const float up_dot = reference::DotA8g32(row, up.view, j);
      ASSERT_TRUE(SameBits(store[at], dot)) << "store " << i << " " << j;
      ASSERT_TRUE(SameBits(add[at], before[at] + (dot + bias[j]))) << "add " << i << " " << j;
      const float gate = dot + bias[j];
      const float wide = reference::Silu(gate) * (up_dot + up_bias[j]);
      ASSERT_TRUE(SameBits(wide_silu[at], wide)) << "silu in fp32 " << i << " " << j;
      const uint16_t mlp = RneBf16(wide);
      const size_t at_silu = static_cast<size_t>(i) * padded_n + j;
      ASSERT_TRUE(SameBits(FromBf16(silu[at_silu]), FromBf16(mlp))) << "silu " << i << " " << j;
    }
    for (int j = n; j < padded_n; ++j) ASSERT_EQ(silu[static_cast<size_t>(i) * padded_n + j], 0);
  }
}

TEST_P(QuantizedGemmTest, EveryFormatEqualsTheDefinition) {
  for (const DType dtype : kQuantizedTypes) {
    for (const int m : {5, 21}) CheckShape(GetParam(), dtype, m, 71, 512, Rows::kUsual);
  }
}

TEST_P(QuantizedGemmTest, EveryNumberOfRowsEqualsTheDefinition) {
  for (const DType dtype : {DType::kQ4_0, DType::kQ8_0, DType::kQ6_K}) {
    for (const int m : {1, 2, 3, 4, 6, 7, 8, 9, 13, 16, 17, 24, 25, 31, 32, 33}) {
      CheckShape(GetParam(), dtype, m, 33, 256, Rows::kUsual);
    }
  }
}

// A piece is 8 groups, of tiles 24: depths around them, and columns around vectors and panels.
TEST_P(QuantizedGemmTest, TailsEqualTheDefinition) {
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ8_0}) {
    for (const int k : {32, 64, 224, 256, 288, 544}) {
      CheckShape(GetParam(), dtype, 3, 40, k, Rows::kUsual);
    }
    for (const int k : {736, 768, 800}) CheckShape(GetParam(), dtype, 27, 40, k, Rows::kUsual);
    for (const int n : {1, 15, 16, 17, 31, 32, 64, 65}) {
      CheckShape(GetParam(), dtype, 2, n, 96, Rows::kUsual);
    }
  }
}

TEST_P(QuantizedGemmTest, TheLargestSumsDoNotOverflow) {
  for (const DType dtype : kQuantizedTypes) {
    for (const int m : {4, 20}) CheckShape(GetParam(), dtype, m, 32, 512, Rows::kLargest);
  }
}

TEST_P(QuantizedGemmTest, OddActivationsEqualTheDefinition) {
  for (const DType dtype : kQuantizedTypes) {
    for (const int m : {5, 28}) CheckShape(GetParam(), dtype, m, 34, 1024, Rows::kOdd);
  }
}

TEST_P(QuantizedGemmTest, RowsBeyondOneBlockEqualTheDefinition) {
  CheckShape(GetParam(), DType::kQ4_0, 197, 32, 64, Rows::kUsual);
}

TEST_P(QuantizedGemmTest, ARangeWritesItsOwnElementsOnly) {
  const int m = 9, n = 100, k = 64;
  const auto x = RandomRows(m, k, Rows::kUsual, 1);
  const Operand operand(ops(), x, m, k);
  const QuantizedWeight w(DType::kQ4_0, n, k, 2);
  QuantizedPanels panels({&w});
  std::vector<float> out(static_cast<size_t>(m) * n, 5.0f);
  GemmArgs args;
  args.quantized = operand.rows;
  args.w = panels.Aligned();
  args.k = k;
  args.n = n;
  args.ldo = n;
  args.out = out.data();
  KernelsOf(GetParam(), PackedFormat::kU4).store(args, 2, 5, 1, 2);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      const bool inside = i >= 2 && i < 5 && j >= 32 && j < 64;
      EXPECT_EQ(out[static_cast<size_t>(i) * n + j] != 5.0f, inside) << i << " " << j;
    }
  }
}

// A file's numbers survive packing: what is read back has the bits of the definition, and the
// panels take the file's bytes.
TEST(QuantizedPanels, RowsReadBackAsTheFileHasThem) {
  ScopedFlushDenormals flush;
  for (const DType dtype : kQuantizedTypes) {
    const int n = 70, k = 512;
    const QuantizedWeight w(dtype, n, k, 11);
    QuantizedPanels panels({&w});
    std::vector<float> actual(k), expected(k);
    for (int row = 0; row < n; ++row) {
      UnpackPackedRow(PackedFormatOf(dtype), panels.Aligned(), row, k, actual.data());
      reference::Dequantize(w.view, row, expected.data());
      ASSERT_TRUE(SameBits(actual, expected)) << InfoOf(dtype).name << " row " << row;
    }
    const DTypeInfo info = InfoOf(dtype);
    EXPECT_EQ(PackedBytes(PackedFormatOf(dtype), 96, k),
              96 * k / info.block_elems * info.block_bytes)
        << info.name;
  }
}

}  // namespace
}  // namespace quire
