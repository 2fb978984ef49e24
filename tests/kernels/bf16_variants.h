#ifndef QUIRE_TESTS_KERNELS_BF16_VARIANTS_H_
#define QUIRE_TESTS_KERNELS_BF16_VARIANTS_H_

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/isa.h"
#include "kernels/numerics_mode.h"
#include "tests/kernels/amx_emulated.h"

namespace quire {

// One set of kernels for bf16 operands.
struct Bf16Variant {
  NumericsMode mode = NumericsMode::kBf16x2;
  CpuIsa isa = CpuIsa::kReference;
  bool emulated = false;  // AMX, by amx_emulated.h
};

inline std::vector<Bf16Variant> AllBf16Variants() {
  std::vector<Bf16Variant> variants;
  for (const NumericsMode mode : {NumericsMode::kBf16x2, NumericsMode::kBf16x32}) {
    for (const CpuIsa isa : kAllCpuIsas) variants.push_back({mode, isa});
  }
  variants.push_back({NumericsMode::kBf16x32, CpuIsa::kAmx, /*emulated=*/true});
  return variants;
}

inline std::string NameOf(const Bf16Variant& variant) {
  return std::string(NameOf(variant.mode)) + "_" + (variant.emulated ? "emulated_" : "") +
         NameOf(variant.isa);
}

// Tests of this kind run once for each variant. No kernel may leave tiles configured.
class Bf16VariantTest : public testing::TestWithParam<Bf16Variant> {
 protected:
  void SetUp() override {
    if (GetParam().emulated) return;
    if (!MachineRuns(GetParam().isa)) GTEST_SKIP() << "no " << NameOf(GetParam().isa) << " here";
  }
  void TearDown() override { EXPECT_FALSE(isa_amx_emulated::HasTiles()); }
};

#define QUIRE_FOR_EACH_BF16_VARIANT(Suite)                                        \
  INSTANTIATE_TEST_SUITE_P(Variants, Suite, testing::ValuesIn(AllBf16Variants()), \
                           [](const auto& variant) { return NameOf(variant.param); })

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_BF16_VARIANTS_H_
