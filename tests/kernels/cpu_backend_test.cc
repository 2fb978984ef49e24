#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/reference/sampling.h"
#include "tests/kernels/backend_session.h"
#include "tests/kernels/bits.h"
#include "tests/kernels/scalar_decoder.h"

namespace quire {
namespace {

// Memory for the layers of OddSpec without windows.
KvSpec OneGroup(int num_blocks) {
  KvSpec kv;
  kv.block_size = kBlockSize;
  kv.num_blocks = num_blocks;
  kv.groups = {{3, 0}};
  kv.group_of_layer = {0, 0, 0};
  kv.index_in_group = {0, 1, 2};
  kv.block_bytes = 3 * 2 * 2 * kBlockSize * 32 * 2;
  return kv;
}

// A step with the first eight tokens of a sequence, in block 2; logits are up to the test.
struct EightTokens {
  explicit EightTokens(int vocab_size) : ids(RandomTokens(8, vocab_size, 3)) {
    step.shape = {8, 1, 0, 0};
    step.token_ids = ids;
    step.positions = positions;
    step.slots = slots;
    step.query_starts = starts;
    step.block_tables = tables;
    step.max_blocks = 1;
  }

  const std::vector<int32_t> ids;
  const std::vector<int32_t> positions = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<int32_t> slots = {64, 65, 66, 67, 68, 69, 70, 71};
  const std::vector<int32_t> starts = {0, 8}, tables = {2};
  HostStep step;
};

class CpuBackendTest : public IsaTest {
 protected:
  // The logits of all tokens, in order, are those of the scalar decoder.
  void CheckSchedule(const Schedule& schedule, bool all_parts) {
    CheckSchedule(schedule, OddSpec(all_parts));
  }
  void CheckSchedule(const Schedule& schedule, const ScalarDecoder::Spec& spec) {
    const ScalarDecoder decoder(spec);
    std::vector<int> lengths(8, 0);
    for (const auto& step : schedule) {
      for (const Chunk& chunk : step) lengths[chunk.seq] += chunk.num_tokens;
    }
    std::vector<std::vector<int32_t>> tokens;
    for (size_t seq = 0; seq < lengths.size(); ++seq) {
      tokens.push_back(RandomTokens(lengths[seq], spec.shape.vocab_size, 100 + seq));
    }
    const std::vector<std::vector<float>>& expected = ExpectedOf(decoder, tokens);
    for (int num_threads : {1, 2}) {
      SCOPED_TRACE(testing::Message() << num_threads << " threads");
      Session session(decoder, spec, GetParam(), num_threads);
      std::vector<std::vector<float>> actual(lengths.size());
      for (const auto& step : schedule) {
        const auto logits = session.Step(step, tokens);
        for (size_t i = 0; i < step.size(); ++i) {
          auto& seq = actual[step[i].seq];
          seq.insert(seq.end(), logits[i].begin(), logits[i].end());
        }
        EXPECT_EQ(session.seq_finite(), std::vector<uint8_t>(step.size(), 1));
      }
      for (size_t seq = 0; seq < lengths.size(); ++seq) {
        EXPECT_TRUE(SameBits(actual[seq], expected[seq])) << "sequence " << seq;
      }
    }
  }

 private:
  // The decoder's logits of each sequence. A test makes the same checks on every instruction set:
  // they are kept for the next one, because scalar code takes most of the time.
  const std::vector<std::vector<float>>& ExpectedOf(
      const ScalarDecoder& decoder, const std::vector<std::vector<int32_t>>& tokens);

  int num_checks_ = 0;
};

const std::vector<std::vector<float>>& CpuBackendTest::ExpectedOf(
    const ScalarDecoder& decoder, const std::vector<std::vector<int32_t>>& tokens) {
  static std::map<std::pair<std::string, int>, std::vector<std::vector<float>>> known;
  const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  const auto [entry, is_new] = known.try_emplace({test.substr(0, test.find('/')), num_checks_++});
  if (is_new) {
    for (const auto& of_seq : tokens) entry->second.push_back(decoder.Logits(of_seq));
  }
  return entry->second;
}

QUIRE_FOR_EACH_ISA(CpuBackendTest);

TEST_P(CpuBackendTest, OneSequenceAtOnceEqualsTheScalarForward) {
  CheckSchedule({{{0, 300}}}, /*all_parts=*/false);
}

TEST_P(CpuBackendTest, OddChunksEqualTheScalarForward) {
  CheckSchedule({{{0, 1}}, {{0, 31}}, {{0, 7}}, {{0, 61}}, {{0, 1}}, {{0, 1}}, {{0, 198}}},
                /*all_parts=*/true);
}

TEST_P(CpuBackendTest, MixedBatchesEqualTheScalarForward) {
  Schedule schedule = {{{0, 40}, {1, 33}}, {{2, 64}, {0, 1}, {1, 1}, {3, 5}}};
  for (int i = 0; i < 40; ++i) schedule.push_back({{1, 1}, {3, 1}, {0, 1}, {2, i % 7 + 1}});
  CheckSchedule(schedule, /*all_parts=*/true);
}

TEST_P(CpuBackendTest, BlocksOf32EqualTheScalarForward) {
  const Schedule schedule = {{{0, 40}, {1, 33}}, {{2, 64}, {0, 1}, {1, 1}}, {{0, 37}, {2, 5}}};
  ScalarDecoder::Spec spec = OddSpec(/*all_parts=*/true);
  spec.numerics = NumericsMode::kBf16x32;
  CheckSchedule(schedule, spec);
}

TEST_P(CpuBackendTest, DrawsAreThoseOfTheDefinitionAndFeedTheNextStep) {
  const ScalarDecoder::Spec spec = OddSpec(/*all_parts=*/false);
  const ScalarDecoder decoder(spec);
  Session session(decoder, spec, GetParam(), 2);
  std::vector<std::vector<int32_t>> tokens = {RandomTokens(20, spec.shape.vocab_size, 1)};
  std::vector<int32_t> known = tokens[0];
  constexpr int kSlot = 5;
  for (int i = 0; i < 10; ++i) {
    SampleRow row;
    row.logit_row = i == 0 ? 19 : 0;
    row.seq_slot = kSlot;
    row.temperature = i % 3 == 0 ? 0.0f : 1.5f;
    row.top_p = i % 2 == 0 ? 1.0f : 0.9f;
    row.seed = 42;
    row.position = 20 + i;
    session.Step({{0, i == 0 ? 20 : 1}}, tokens, {row});
    const std::vector<float> logits = decoder.Logits(known);
    const int32_t expected =
        reference::SampleToken(absl::MakeConstSpan(logits).last(spec.shape.vocab_size), row);
    ASSERT_EQ(session.sampled(), std::vector<int32_t>{expected});
    known.push_back(expected);
    tokens[0].push_back(-1 - kSlot);  // the last token drawn for the slot
  }
}

TEST_P(CpuBackendTest, ManyDrawsOfARowAreEachAsIfAlone) {
  const ScalarDecoder::Spec spec = OddSpec(/*all_parts=*/false);
  const ScalarDecoder decoder(spec);
  const int vocab_size = spec.shape.vocab_size;
  const std::vector<std::vector<int32_t>> tokens = {RandomTokens(20, vocab_size, 1)};
  // Draws of two rows, some with all tokens banned but a few, or all.
  std::vector<int32_t> banned(vocab_size);
  std::iota(banned.begin(), banned.end(), 0);
  std::vector<SampleRow> samples;
  std::vector<LogprobRow> logprob_rows = {{.logit_row = 3, .token_id = 7, .num_top = 5}};
  for (int i = 0; i < 32; ++i) {
    SampleRow row = {.logit_row = 19 - i % 2, .seq_slot = i == 0 ? 0 : -1};
    row.temperature = i % 5 == 0 ? 0.0f : 1.5f;
    row.choice = i;
    if (i % 4 >= 2) row.edits.banned = absl::MakeConstSpan(banned).first(vocab_size - i % 3);
    samples.push_back(row);
    logprob_rows.push_back({.logit_row = row.logit_row, .token_id = -1 - i, .num_top = i % 21});
  }
  for (const int num_threads : {1, 2, 3}) {
    Session session(decoder, spec, GetParam(), num_threads);
    const std::vector<float> logits = session.Step({{0, 20}}, tokens, samples, logprob_rows)[0];
    const auto row_of = [&](int row) {
      return absl::MakeConstSpan(logits).subspan(row * vocab_size, vocab_size);
    };
    for (int i = 0; i < 32; ++i) {
      ASSERT_EQ(session.sampled()[i],
                reference::SampleToken(row_of(samples[i].logit_row), samples[i]));
    }
    for (size_t i = 0; i < logprob_rows.size(); ++i) {
      const auto& [logit_row, token, num_top] = logprob_rows[i];
      const int32_t token_id = token >= 0 ? token : session.sampled()[-1 - token];
      const RowLogprobs expected = reference::LogprobsOf(row_of(logit_row), token_id, num_top);
      EXPECT_EQ(0, std::memcmp(&session.logprobs()[i], &expected, sizeof(expected))) << i;
    }
  }
}

TEST_P(CpuBackendTest, ARowWithoutSlotReadsTheCacheAndWritesNothing) {
  const ScalarDecoder::Spec spec = OddSpec(/*all_parts=*/false);
  const ScalarDecoder decoder(spec);
  Session session(decoder, spec, GetParam(), 2);
  const std::vector<std::vector<int32_t>> tokens = {RandomTokens(64, spec.shape.vocab_size, 1)};
  const auto first = session.Step({{0, 64}}, tokens);

  std::vector<std::byte> before(session.backend().KvBlock(0),
                                session.backend().KvBlock(kNumBlocks));
  session.num_computed(0) = 63;
  session.write_kv = false;
  const auto again = session.Step({{0, 1}}, tokens);
  const int vocab_size = spec.shape.vocab_size;
  EXPECT_TRUE(SameBits(absl::MakeConstSpan(again[0]),
                       absl::MakeConstSpan(first[0]).subspan(63 * vocab_size, vocab_size)));
  EXPECT_EQ(0, std::memcmp(before.data(), session.backend().KvBlock(0), before.size()));
}

TEST_P(CpuBackendTest, ANotFiniteRowIsReportedForItsSequenceAlone) {
  const ScalarDecoder::Spec spec = OddSpec(/*all_parts=*/false);
  const ScalarDecoder decoder(spec);
  Session session(decoder, spec, GetParam(), 2);
  const std::vector<std::vector<int32_t>> tokens = {RandomTokens(50, spec.shape.vocab_size, 1),
                                                    RandomTokens(50, spec.shape.vocab_size, 2)};
  session.Step({{0, 40}, {1, 40}}, tokens);
  // Sequence 0 owns the block that was taken first: the last of the shuffled ids.
  std::vector<int32_t> ids(kNumBlocks);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937(7));
  std::fill_n(reinterpret_cast<uint16_t*>(session.backend().KvBlock(ids.back())), 4096, 0x7f80);
  const auto logits = session.Step({{0, 1}, {1, 1}}, tokens);
  EXPECT_EQ(session.seq_finite(), (std::vector<uint8_t>{0, 1}));
  const auto expected = decoder.Logits(absl::MakeConstSpan(tokens[1]).subspan(0, 41));
  EXPECT_TRUE(SameBits(absl::MakeConstSpan(logits[1]),
                       absl::MakeConstSpan(expected).subspan(40 * spec.shape.vocab_size)));
}

TEST_P(CpuBackendTest, TapsAreGatheredInOrder) {
  const ScalarDecoder::Spec spec = OddSpec(/*all_parts=*/false);
  const ScalarDecoder decoder(spec);
  CpuBackend backend({GetParam(), ""}, spec.numerics, 2);
  const Backend::Forward forward = decoder.LoadInto(backend, kMaxModelLen);
  ASSERT_TRUE(backend.Reserve(spec.shape, {16, 2, 16, 2, kMaxModelLen}).ok());
  ASSERT_TRUE(backend.AllocateKv(OneGroup(4)).ok());

  EightTokens tokens(spec.shape.vocab_size);
  HostStep& step = tokens.step;
  const std::vector<int32_t> rows = {1, 4, 6, 7}, taps = {1, 3};
  step.shape.num_logit_rows = 4;
  step.logit_rows = rows;
  step.logit_taps = taps;
  std::vector<float> logits;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const StepResult result = backend.Collect(backend.Launch(step, forward)).value();
    logits.assign(result.logits.begin(), result.logits.end());
  }
  // There is no window here, so not the scalar decoder but a run of all taps is compared with.
  const std::vector<int32_t> all = {0, 1, 2, 3};
  step.logit_taps = all;
  const StepResult whole = backend.Collect(backend.Launch(step, forward)).value();
  const int vocab_size = spec.shape.vocab_size;
  ASSERT_EQ(logits.size(), 2u * vocab_size);
  EXPECT_TRUE(SameBits(absl::MakeConstSpan(logits).subspan(0, vocab_size),
                       whole.logits.subspan(vocab_size, vocab_size)));
  EXPECT_TRUE(SameBits(absl::MakeConstSpan(logits).subspan(vocab_size),
                       whole.logits.subspan(3 * vocab_size)));
}

// Files mix types, also within q, k and v.
TEST_P(CpuBackendTest, QuantisedWeightsEqualTheScalarForward) {
  ScalarDecoder::Spec spec = OddSpec(/*all_parts=*/true);
  spec.shape.hidden_size = 96;
  spec.shape.num_heads = 4;
  spec.shape.num_kv_heads = 2;
  spec.shape.head_dim = 40;  // 160 columns of `out`
  spec.shape.intermediate_size = 160;
  const std::vector<DType> mixed = {DType::kQ8_0, DType::kF32, DType::kQ4_0, DType::kQ4_0};
  for (const auto& [mode, types] : {std::pair{NumericsMode::kA8g32, std::vector{DType::kQ4_0}},
                                    {NumericsMode::kA8g32, mixed},
                                    {NumericsMode::kA8g32x32, mixed},
                                    {NumericsMode::kBf16x32, mixed}}) {
    spec.numerics = mode;
    spec.types = types;
    CheckSchedule({{{0, 40}, {1, 3}}, {{0, 1}, {1, 1}, {2, 20}}}, spec);
  }
}

// A chunk in the middle of a prompt wants no logits: the head is not computed, and what holds
// logits (fewer rows than a step has tokens) stays as it was.
TEST_P(CpuBackendTest, AStepWithoutLogitRowsWritesNoLogits) {
  const ScalarDecoder::Spec spec = OddSpec(/*all_parts=*/false);
  const ScalarDecoder decoder(spec);
  CpuBackend backend({GetParam(), ""}, spec.numerics, 2);
  const Backend::Forward forward = decoder.LoadInto(backend, kMaxModelLen);
  ASSERT_TRUE(backend.Reserve(spec.shape, {16, 2, 2, 2, kMaxModelLen}).ok());
  ASSERT_TRUE(backend.AllocateKv(OneGroup(4)).ok());

  EightTokens tokens(spec.shape.vocab_size);
  HostStep& step = tokens.step;
  const std::vector<int32_t> rows = {6, 7}, taps = {0, 1};
  step.shape.num_logit_rows = 2;
  step.logit_rows = rows;
  step.logit_taps = taps;
  const StepResult with = backend.Collect(backend.Launch(step, forward)).value();
  const std::vector<float> logits(with.logits.begin(), with.logits.end());
  const absl::Span<const float> memory = with.logits;
  step.shape.num_logit_rows = 0;
  step.logit_rows = {};
  step.logit_taps = {};
  const StepResult without = backend.Collect(backend.Launch(step, forward)).value();
  EXPECT_TRUE(without.logits.empty());
  EXPECT_TRUE(SameBits(memory, absl::MakeConstSpan(logits)));
}

TEST(CpuBackend, RefusesMoreKvThanTheMachineHas) {
  const ScalarDecoder::Spec spec = OddSpec(/*all_parts=*/false);
  CpuBackend backend({CpuIsa::kReference, ""}, spec.numerics, 1);
  ASSERT_TRUE(backend.Reserve(spec.shape, {16, 2, 16, 2, kMaxModelLen}).ok());
  const absl::Status status = backend.AllocateKv(OneGroup(1 << 30));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(status.message()).find("26388279066624"), std::string::npos)
      << status.message();
}

TEST(CpuBackend, SaysWhatItRunsOn) {
  const auto backend = CreateCpuBackend({.num_threads = 2, .isa = CpuIsa::kReference});
  ASSERT_TRUE(backend.ok());
  EXPECT_EQ((*backend)->Describe(), "cpu, reference, 2 threads, numerics bf16x2");
  EXPECT_EQ((*backend)->NumericsName(), "bf16x2");
  const auto by_blocks = CreateCpuBackend(
      {.num_threads = 1, .isa = CpuIsa::kReference, .numerics = NumericsMode::kBf16x32});
  ASSERT_TRUE(by_blocks.ok());
  EXPECT_EQ((*by_blocks)->NumericsName(), "bf16x32");
}

}  // namespace
}  // namespace quire
