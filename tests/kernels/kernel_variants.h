#ifndef QUIRE_TESTS_KERNELS_KERNEL_VARIANTS_H_
#define QUIRE_TESTS_KERNELS_KERNEL_VARIANTS_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/isa.h"
#include "kernels/numerics_mode.h"
#include "tests/kernels/amx_emulated.h"

namespace quire {

// One set of kernels for products or attention.
struct KernelVariant {
  NumericsMode mode = NumericsMode::kBf16x2;
  CpuIsa isa = CpuIsa::kReference;
  bool emulated = false;  // AMX, by amx_emulated.h
};

// Of each mode, on each instruction set; and on emulated AMX, where it has kernels for the mode.
inline std::vector<KernelVariant> VariantsOf(std::initializer_list<NumericsMode> modes) {
  std::vector<KernelVariant> variants;
  for (const NumericsMode mode : modes) {
    for (const CpuIsa isa : kAllCpuIsas) variants.push_back({mode, isa});
    if (mode != NumericsMode::kBf16x2) variants.push_back({mode, CpuIsa::kAmx, /*emulated=*/true});
  }
  return variants;
}

inline bool IsPlain(const KernelVariant& variant) {
  return variant.emulated || variant.isa == CpuIsa::kReference;
}

inline std::string NameOf(const KernelVariant& variant) {
  return std::string(NameOf(variant.mode)) + "_" + (variant.emulated ? "emulated_" : "") +
         NameOf(variant.isa);
}

// Tests of this kind run once for each variant. No kernel may leave tiles configured.
class KernelVariantTest : public testing::TestWithParam<KernelVariant> {
 protected:
  void SetUp() override {
    if (GetParam().emulated) return;
    if (!MachineRuns(GetParam().isa)) GTEST_SKIP() << "no " << NameOf(GetParam().isa) << " here";
  }
  void TearDown() override { EXPECT_FALSE(isa_amx_emulated::HasTiles()); }
};

#define QUIRE_FOR_EACH_VARIANT_OF(Suite, ...)                                             \
  INSTANTIATE_TEST_SUITE_P(Variants, Suite, testing::ValuesIn(VariantsOf({__VA_ARGS__})), \
                           [](const auto& variant) { return NameOf(variant.param); })

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_KERNEL_VARIANTS_H_
