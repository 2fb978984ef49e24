// Random valid requests against the definition of sampling, and the definition against a textbook.

#include <cstdint>
#include <optional>

#include "gtest/gtest.h"

#include "kernels/cpu/reference/sampling.h"
#include "kernels/cpu/sampling.h"
#include "tests/kernels/bits.h"
#include "tests/kernels/plain_sampler.h"
#include "tests/kernels/random_draw.h"

namespace quire {
namespace {

constexpr int kNumDraws = 10000;
constexpr uint64_t kFirstSeed = 20000;

// Few large vocabularies: they cost time, and small ones have all the edges.
int VocabSizeOf(uint64_t seed) {
  if (seed % 1000 == 0) return 49152;
  if (seed % 50 == 0) return 5003;
  constexpr int kSizes[] = {1, 2, 15, 16, 17, 33, 64, 100, 257, 512};
  return kSizes[seed % 10];
}

class SamplingPropertyTest : public IsaTest {};

QUIRE_FOR_EACH_ISA(SamplingPropertyTest);

TEST_P(SamplingPropertyTest, TokensOf10000RandomRequestsAreThoseOfTheDefinition) {
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kNumDraws; ++seed) {
    const int vocab_size = VocabSizeOf(seed);
    const RandomDraw draw(seed, vocab_size);
    TokenSampler sampler(CpuOpsFor(GetParam()), vocab_size);
    ASSERT_EQ(sampler.Draw(draw.logits().data(), draw.row()),
              reference::SampleToken(draw.logits(), draw.row()))
        << "seed " << seed << " vocabulary " << vocab_size << " " << draw.ToString();
  }
}

TEST(SamplingDefinition, AgreesWithATextbookOn10000RandomRequests) {
  const ScopedFlushDenormals flush;
  int num_compared = 0;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kNumDraws; ++seed) {
    const RandomDraw draw(seed, VocabSizeOf(seed));
    const std::optional<int32_t> token = PlainSampledToken(draw.logits(), draw.row());
    if (!token.has_value()) continue;
    ++num_compared;
    ASSERT_EQ(reference::SampleToken(draw.logits(), draw.row()), *token)
        << "seed " << seed << " vocabulary " << VocabSizeOf(seed) << " " << draw.ToString();
  }
  // The others stand within rounding of a threshold: ties of all kinds are among them.
  EXPECT_GT(num_compared, kNumDraws * 8 / 10);
}

}  // namespace
}  // namespace quire
