#ifndef QUIRE_TESTS_KERNELS_BITS_H_
#define QUIRE_TESTS_KERNELS_BITS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/thread_pool.h"

// What tests of kernels share: values of all kinds, and equality of bits.

namespace quire {

inline bool SameBits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || BitsOfFloat(a) == BitsOfFloat(b);
}

// bf16.
inline bool SameBits(uint16_t a, uint16_t b) { return SameBits(FromBf16(a), FromBf16(b)); }

// Element by element; NaNs are equal to each other whatever their sign and payload.
template <typename T>
testing::AssertionResult SameBits(absl::Span<const T> actual, absl::Span<const T> expected) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure() << actual.size() << " elements, not " << expected.size();
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    if (SameBits(actual[i], expected[i])) continue;
    return testing::AssertionFailure() << "element " << i << " of " << actual.size() << ": "
                                       << actual[i] << ", expected " << expected[i];
  }
  return testing::AssertionSuccess();
}

template <typename T>
testing::AssertionResult SameBits(const std::vector<T>& actual, const std::vector<T>& expected) {
  return SameBits(absl::MakeConstSpan(actual), absl::MakeConstSpan(expected));
}

enum class Values {
  kUsual,    // normally distributed, some zeros of both signs
  kSpecial,  // and denormals, infinities, NaNs, the largest and smallest normal numbers
};

inline float RandomFloat(Values values, std::mt19937& random) {
  static constexpr float kSpecials[] = {INFINITY,   -INFINITY,     NAN,
                                        1e-40f,     -1e-40f,       0x1p-126f,
                                        -0x1p-126f, 3.4028235e38f, -3.4028235e38f};
  if (random() % 64 == 0) return random() % 2 == 0 ? 0.0f : -0.0f;
  if (values == Values::kSpecial && random() % 16 == 0) {
    return kSpecials[random() % std::size(kSpecials)];
  }
  return std::normal_distribution<float>()(random);
}

inline std::vector<float> RandomFloats(size_t count, Values values, std::mt19937& random) {
  std::vector<float> floats(count);
  for (float& x : floats) x = RandomFloat(values, random);
  return floats;
}

// Tests of this kind run once for each instruction set, with denormals flushed.
class IsaTest : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks " << NameOf(GetParam());
  }

 private:
  ScopedFlushDenormals flush_;
};

inline std::string IsaTestName(const testing::TestParamInfo<CpuIsa>& info) {
  return NameOf(info.param);
}

#define QUIRE_FOR_EACH_ISA(Suite) \
  INSTANTIATE_TEST_SUITE_P(Isa, Suite, testing::ValuesIn(kAllCpuIsas), IsaTestName)

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_BITS_H_
