#include "kernels/cpu/gemm.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/gemm.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/weight_packing.h"
#include "tests/kernels/amx_emulated.h"
#include "tests/kernels/kernel_variants.h"

namespace quire {
namespace {

enum class Values { kUsual, kWithDenormals, kNotFinite };

// Row-major bf16 [rows, cols].
std::vector<uint16_t> RandomBf16(int rows, int cols, Values values, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> matrix(static_cast<size_t>(rows) * cols);
  for (uint16_t& x : matrix) {
    x = RneBf16(normal(random));
    const uint32_t dice = random() % 64;
    if (dice == 0) x &= 0x8000;  // a zero of either sign
    if (values == Values::kWithDenormals) {
      if (dice < 8) x &= 0x807f;                // denormal
      if (dice >= 8 && dice < 40) x &= 0x9fff;  // tiny: products are denormal
    }
    if (values != Values::kNotFinite) continue;
    if (random() % 512 == 0) x = (x & 0x8000) | 0x7f80;
    if (random() % 4096 == 0) x = 0x7fc0;
  }
  return matrix;
}

std::vector<float> RandomFloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

// Panels at an address that is a multiple of 64.
class Packed {
 public:
  // Interleaves the panels of several matrices [n, k] of equal shape.
  Packed(const std::vector<const uint16_t*>& matrices, int n, int k) {
    const size_t num = matrices.size();
    storage_.resize(num * PackedBytes(PackedFormat::kBf16, n, k) + 64);
    uint8_t* panel = Aligned();
    for (int i = 0; i < NumPanels(n); ++i) {
      for (const uint16_t* matrix : matrices) {
        const int num_rows = std::min(kPanelCols, n - i * kPanelCols);
        PackBf16Panel(matrix + static_cast<size_t>(i) * kPanelCols * k, k, num_rows, k, panel);
        panel += PanelBytes(PackedFormat::kBf16, k);
      }
    }
  }
  uint8_t* Aligned() {
    const uintptr_t address = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<uint8_t> storage_;
};

// Rows [m, k] at stride `lda`; what lies between k and lda is garbage but for an odd k's padding.
std::vector<uint16_t> WithStride(const std::vector<uint16_t>& rows, int m, int k, int64_t lda) {
  std::vector<uint16_t> padded(m * lda, 0x7fc0);
  for (int i = 0; i < m; ++i) {
    std::memcpy(&padded[i * lda], &rows[static_cast<size_t>(i) * k], k * sizeof(uint16_t));
    if (k % 2 == 1) padded[i * lda + k] = 0;
  }
  return padded;
}

// Index of the first element that differs in bits, NaNs being equal to each other; -1: none.
int64_t FirstDifference(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (BitsOfFloat(a[i]) != BitsOfFloat(b[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

std::vector<float> Widened(const std::vector<uint16_t>& a) {
  std::vector<float> out;
  for (uint16_t x : a) out.push_back(FromBf16(x));
  return out;
}

struct Shape {
  int n;
  int k;
};

const GemmKernels& KernelsOf(const KernelVariant& variant) {
  constexpr PackedFormat kFormat = PackedFormat::kBf16;
  return variant.emulated ? isa_amx_emulated::kBf16x32GemmKernels.of[static_cast<int>(kFormat)]
                          : GemmKernelsFor(variant.isa, variant.mode, kFormat);
}

class GemmOn : public KernelVariantTest {
 protected:
  const GemmKernels& kernels() const { return KernelsOf(GetParam()); }
  void CheckShape(int m, Shape shape, Values values) const;

  ScopedFlushDenormals flush_;
};

// Operands, and what the definitions make of them.
struct Example {
  std::vector<uint16_t> a, w, up;
  std::vector<float> bias, up_bias, before;
  struct Results {
    std::vector<float> store, add;
    std::vector<uint16_t> silu_mul;
  };
  Results plain, with_bias;
};

Example::Results ResultsOf(const Example& example, NumericsMode mode, int m, Shape shape,
                           const float* bias, const float* up_bias) {
  const auto [n, k] = shape;
  const uint16_t* const a = example.a.data();
  const uint16_t* const w = example.w.data();
  Example::Results results;
  results.store.resize(example.before.size());
  reference::GemmStore(mode, a, w, bias, m, n, k, results.store.data());
  results.add = example.before;
  reference::GemmAdd(mode, a, w, bias, m, n, k, results.add.data());
  results.silu_mul.resize(example.before.size());
  reference::GemmSiluMul(mode, a, w, example.up.data(), bias, up_bias, m, n, k,
                         results.silu_mul.data());
  return results;
}

// Kept for the next instruction set that is tested with the same one: scalar code takes most of the
// time.
const Example& ExampleOf(NumericsMode mode, int m, Shape shape, Values values) {
  static std::map<std::array<int, 5>, Example> known;
  const auto [n, k] = shape;
  const auto [entry, is_new] =
      known.try_emplace({static_cast<int>(mode), m, n, k, static_cast<int>(values)});
  Example& example = entry->second;
  if (!is_new) return example;
  const uint32_t seed = m * 1000003 + n * 1009 + k;
  example.a = RandomBf16(m, k, values, seed);
  example.w = RandomBf16(n, k, values, seed + 1);
  example.up = RandomBf16(n, k, values, seed + 2);
  example.bias = RandomFloats(n, seed + 3);
  example.up_bias = RandomFloats(n, seed + 4);
  example.before = RandomFloats(static_cast<size_t>(m) * n, seed + 5);
  example.plain = ResultsOf(example, mode, m, shape, nullptr, nullptr);
  example.with_bias =
      ResultsOf(example, mode, m, shape, example.bias.data(), example.up_bias.data());
  return example;
}

// Compares all epilogues with their definitions.
void GemmOn::CheckShape(int m, Shape shape, Values values) const {
  const auto [n, k] = shape;
  const GemmKernels& kernels = KernelsOf(GetParam());
  SCOPED_TRACE(testing::Message() << "m " << m << " n " << n << " k " << k << " values "
                                  << static_cast<int>(values));
  const Example& example = ExampleOf(GetParam().mode, m, shape, values);
  const int64_t lda = ActivationStride(k);
  const auto padded = WithStride(example.a, m, k, lda);
  Packed packed({example.w.data()}, n, k);
  Packed gate_up({example.w.data(), example.up.data()}, n, k);

  for (const bool has_bias : {false, true}) {
    const Example::Results& expected = has_bias ? example.with_bias : example.plain;
    GemmArgs args;
    args.a = padded.data();
    args.lda = lda;
    args.w = packed.Aligned();
    args.k = k;
    args.n = n;
    args.ldo = n;
    args.bias = has_bias ? example.bias.data() : nullptr;

    std::vector<float> out(static_cast<size_t>(m) * n, -7.0f);
    args.out = out.data();
    kernels.store(args, 0, m, 0, NumPanels(n));
    EXPECT_EQ(FirstDifference(out, expected.store), -1) << "store";

    out = example.before;
    args.out = out.data();
    kernels.add(args, 0, m, 0, NumPanels(n));
    EXPECT_EQ(FirstDifference(out, expected.add), -1) << "add";

    const int padded_n = n + n % 2;
    std::vector<uint16_t> out_bf16(static_cast<size_t>(m) * padded_n, 0x4444);
    args.w = gate_up.Aligned();
    args.up_bias = has_bias ? example.up_bias.data() : nullptr;
    args.out_bf16 = out_bf16.data();
    args.ldo = padded_n;
    kernels.silu_mul(args, 0, m, 0, NumPanels(n));
    const auto expected_bf16 = WithStride(expected.silu_mul, m, n, padded_n);
    EXPECT_EQ(FirstDifference(Widened(out_bf16), Widened(expected_bf16)), -1) << "silu_mul";
  }
}

TEST_P(GemmOn, EveryNumberOfRowsEqualsTheDefinition) {
  for (int m = 1; m <= 40; ++m) {
    CheckShape(m, {.n = 96, .k = 64}, Values::kUsual);
    CheckShape(m, {.n = 71, .k = 37}, Values::kUsual);
  }
  CheckShape(64, {.n = 96, .k = 64}, Values::kUsual);
}

TEST_P(GemmOn, TailsOfColumnsAndOfDepthEqualTheDefinition) {
  for (int n : {1, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65}) {
    for (int k : {1, 2, 3, 30, 31, 32, 33, 63, 65}) CheckShape(7, {n, k}, Values::kUsual);
  }
}

TEST_P(GemmOn, DepthBeyondOnePieceEqualsTheDefinition) {
  for (int k : {1022, 1024, 1025, 1026, 2049}) {
    CheckShape(7, {.n = 40, .k = k}, Values::kUsual);
  }
}

TEST_P(GemmOn, RowsBeyondOneBlockEqualTheDefinition) {
  CheckShape(203, {.n = 40, .k = 50}, Values::kUsual);
}

TEST_P(GemmOn, DenormalsAreFlushedAsInTheDefinition) {
  for (int m : {1, 6, 33}) CheckShape(m, {.n = 70, .k = 130}, Values::kWithDenormals);
}

TEST_P(GemmOn, InfinitiesAndNansEqualTheDefinition) {
  for (int m : {1, 6, 33}) CheckShape(m, {.n = 70, .k = 130}, Values::kNotFinite);
}

TEST_P(GemmOn, ChunksAndThreadsDoNotChangeBits) {
  const int m = 210;
  const int n = 32 * 40;
  const int k = 96;
  const auto a = RandomBf16(m, k, Values::kUsual, 1);
  const auto w = RandomBf16(n, k, Values::kUsual, 2);
  Packed packed({w.data()}, n, k);
  std::vector<float> whole(static_cast<size_t>(m) * n);
  GemmArgs args;
  args.a = a.data();
  args.lda = k;
  args.w = packed.Aligned();
  args.k = k;
  args.n = n;
  args.ldo = n;
  args.out = whole.data();
  kernels().store(args, 0, m, 0, NumPanels(n));

  for (int num_threads : {1, 2}) {
    ThreadPool pool(num_threads);
    std::vector<float> out(whole.size());
    args.out = out.data();
    const GemmChunks chunks = ChunkGemm(m, NumPanels(n), 1, k, 192, num_threads);
    EXPECT_GT(chunks.num_chunks, 1);
    pool.Run(chunks.num_chunks, [&](int chunk, int) {
      const auto rows = chunks.RowsOf(chunk);
      const auto units = chunks.UnitsOf(chunk);
      kernels().store(args, rows.begin, rows.end, units.begin, units.end);
    });
    EXPECT_EQ(std::memcmp(out.data(), whole.data(), out.size() * sizeof(float)), 0);
  }
}

TEST_P(GemmOn, ARangeWritesItsOwnElementsOnly) {
  const int m = 9;
  const int n = 100;
  const int k = 16;
  const auto a = RandomBf16(m, k, Values::kUsual, 1);
  const auto w = RandomBf16(n, k, Values::kUsual, 2);
  Packed packed({w.data()}, n, k);
  std::vector<float> out(static_cast<size_t>(m) * n, 5.0f);
  GemmArgs args;
  args.a = a.data();
  args.lda = k;
  args.w = packed.Aligned();
  args.k = k;
  args.n = n;
  args.ldo = n;
  args.out = out.data();
  kernels().store(args, 2, 5, 1, 2);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      const bool inside = i >= 2 && i < 5 && j >= 32 && j < 64;
      EXPECT_EQ(out[static_cast<size_t>(i) * n + j] != 5.0f, inside) << i << " " << j;
    }
  }
}

QUIRE_FOR_EACH_VARIANT_OF(GemmOn, NumericsMode::kBf16x2, NumericsMode::kBf16x32);

TEST(Panels, RowsReadBackAsPacked) {
  for (auto [n, k] : {Shape{70, 33}, Shape{32, 64}, Shape{1, 1}}) {
    const auto w = RandomBf16(n, k, Values::kUsual, 3);
    Packed packed({w.data()}, n, k);
    for (int row = 0; row < n; ++row) {
      std::vector<float> out(k);
      UnpackPackedRow(PackedFormat::kBf16, packed.Aligned(), row, k, out.data());
      for (int i = 0; i < k; ++i) EXPECT_EQ(out[i], FromBf16(w[size_t{1} * row * k + i]));
    }
  }
}

TEST(GemmChunks, CoverEveryElementOnce) {
  for (int rows : {0, 1, 17, 192, 193, 512}) {
    for (int units : {1, 2, 3, 18, 127}) {
      for (int panels_per_unit : {1, 2}) {
        for (int threads : {1, 2, 64}) {
          const GemmChunks chunks = ChunkGemm(rows, units, panels_per_unit, 576, 192, threads);
          std::vector<int> hits(static_cast<size_t>(rows) * units);
          for (int chunk = 0; chunk < chunks.num_chunks; ++chunk) {
            const auto r = chunks.RowsOf(chunk);
            const auto u = chunks.UnitsOf(chunk);
            ASSERT_LT(r.begin, r.end);
            ASSERT_LT(u.begin, u.end);
            for (int i = r.begin; i < r.end; ++i) {
              for (int j = u.begin; j < u.end; ++j) ++hits[static_cast<size_t>(i) * units + j];
            }
          }
          for (int hit : hits) ASSERT_EQ(hit, 1) << rows << "x" << units << " on " << threads;
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
