#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/reference/sampling.h"
#include "tests/kernels/allocation_count.h"
#include "tests/kernels/bits.h"
#include "tests/kernels/scalar_decoder.h"

namespace quire {
namespace {

constexpr int kBlockSize = 32;
constexpr int kMaxBlocks = 12;
constexpr int kNumBlocks = 40;
constexpr int kMaxModelLen = kBlockSize * kMaxBlocks;

// Nothing is a multiple of a vector, a panel or a tile; layer 1 has a window of its own group.
ScalarDecoder::Spec OddSpec(bool all_parts) {
  ScalarDecoder::Spec spec;
  spec.shape = {.num_layers = 3,
                .hidden_size = 90,
                .num_heads = 6,
                .num_kv_heads = 2,
                .head_dim = 20,
                .intermediate_size = 71,
                .vocab_size = 133,
                .norm_eps = 1e-5f};
  spec.windows = {0, 50, 0};
  spec.biases = all_parts;
  spec.qk_norms = all_parts;
  if (all_parts) spec.layers_without_rope = {2};
  return spec;
}

struct Chunk {
  int seq;
  int num_tokens;
};
using Schedule = std::vector<std::vector<Chunk>>;  // steps

// A backend with the decoder, and sequences that are fed to it by a schedule.
class Session {
 public:
  Session(const ScalarDecoder& decoder, const ScalarDecoder::Spec& spec, CpuIsa isa,
          int num_threads)
      : vocab_size_(spec.shape.vocab_size), backend_({isa, ""}, num_threads) {
    forward_ = decoder.LoadInto(backend_, kMaxModelLen);
    EXPECT_TRUE(backend_.Supports(spec.shape).ok());
    EXPECT_TRUE(backend_.Reserve(spec.shape, {512, 8, 512, kMaxModelLen}).ok());
    KvSpec kv;
    kv.block_size = kBlockSize;
    kv.num_blocks = kNumBlocks;
    kv.groups = {{2, 0}, {1, spec.windows[1]}};
    kv.group_of_layer = {0, 1, 0};
    kv.index_in_group = {0, 0, 1};
    kv.block_bytes = 2 * int64_t{2} * spec.shape.num_kv_heads * kBlockSize *
                     PaddedHeadDim(spec.shape.head_dim) * 2;
    EXPECT_TRUE(backend_.AllocateKv(kv).ok());
    backend_.TouchKv(0, kNumBlocks);
    // Blocks come with what an earlier owner, and worse, left in them.
    for (int block = 0; block < kNumBlocks; ++block) {
      std::fill_n(reinterpret_cast<uint16_t*>(backend_.KvBlock(block)), kv.block_bytes / 2, 0x7fc1);
    }
    free_.resize(kNumBlocks);
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), std::mt19937(7));
  }

  // Runs one step; the tokens of sequence i continue tokens[i]. Returns the logits of every row,
  // by sequence.
  std::vector<std::vector<float>> Step(const std::vector<Chunk>& chunks,
                                       const std::vector<std::vector<int32_t>>& tokens,
                                       std::vector<SampleRow> samples = {}) {
    Arrays arrays = Build(chunks, tokens);
    arrays.step.samples = samples;
    arrays.step.shape.num_samples = static_cast<int>(samples.size());
    const int64_t allocations_before = NumAllocations();
    const StepTicket ticket = backend_.Launch(arrays.step, forward_);
    const StepResult result = backend_.Collect(ticket).value();
    EXPECT_EQ(NumAllocations(), allocations_before) << "a step takes nothing from the heap";
    sampled_.assign(result.sampled.begin(), result.sampled.end());
    seq_finite_.assign(result.seq_finite.begin(), result.seq_finite.end());
    std::vector<std::vector<float>> logits;
    const float* next = result.logits.data();
    for (const Chunk& chunk : chunks) {
      logits.emplace_back(next, next + int64_t{chunk.num_tokens} * vocab_size_);
      next += int64_t{chunk.num_tokens} * vocab_size_;
    }
    return logits;
  }

  const std::vector<int32_t>& sampled() const { return sampled_; }
  const std::vector<uint8_t>& seq_finite() const { return seq_finite_; }
  CpuBackend& backend() { return backend_; }
  // Tokens of `seq` computed so far; a test may go back by some.
  int& num_computed(int seq) { return Sequence(seq).num_computed; }
  bool write_kv = true;

 private:
  struct Seq {
    int num_computed = 0;
    std::vector<int32_t> blocks[2];  // by group
  };
  struct Arrays {
    std::vector<int32_t> ids, positions, slots, starts{0}, tables, rows;
    HostStep step;
  };

  Seq& Sequence(int seq) {
    if (seq >= static_cast<int>(seqs_.size())) seqs_.resize(seq + 1);
    return seqs_[seq];
  }

  Arrays Build(const std::vector<Chunk>& chunks, const std::vector<std::vector<int32_t>>& tokens) {
    Arrays a;
    for (const Chunk& chunk : chunks) {
      Seq& seq = Sequence(chunk.seq);
      for (int i = 0; i < chunk.num_tokens; ++i) {
        const int position = seq.num_computed + i;
        a.ids.push_back(tokens[chunk.seq][position]);
        a.positions.push_back(position);
        a.rows.push_back(static_cast<int32_t>(a.rows.size()));
      }
      a.starts.push_back(static_cast<int32_t>(a.ids.size()));
    }
    for (int group = 0; group < 2; ++group) {
      for (const Chunk& chunk : chunks) {
        Seq& seq = Sequence(chunk.seq);
        auto& blocks = seq.blocks[group];
        for (int i = 0; i < chunk.num_tokens; ++i) {
          const int position = seq.num_computed + i;
          if (position / kBlockSize == static_cast<int>(blocks.size())) {
            blocks.push_back(free_.back());
            free_.pop_back();
          }
          const int32_t slot = blocks[position / kBlockSize] * kBlockSize + position % kBlockSize;
          a.slots.push_back(write_kv ? slot : -1);
        }
        std::vector<int32_t> table = blocks;
        table.resize(kMaxBlocks, -1);
        a.tables.insert(a.tables.end(), table.begin(), table.end());
      }
    }
    for (const Chunk& chunk : chunks) Sequence(chunk.seq).num_computed += chunk.num_tokens;
    const int num_tokens = static_cast<int>(a.ids.size());
    a.step.shape = {num_tokens, static_cast<int>(chunks.size()), num_tokens, 0};
    a.step.token_ids = a.ids;
    a.step.positions = a.positions;
    a.step.slots = a.slots;
    a.step.query_starts = a.starts;
    a.step.block_tables = a.tables;
    a.step.max_blocks = kMaxBlocks;
    a.step.logit_rows = a.rows;
    a.step.logit_taps = a.rows;
    return a;
  }

  const int vocab_size_;
  CpuBackend backend_;
  Backend::Forward forward_;
  std::vector<int32_t> free_;
  std::vector<Seq> seqs_;
  std::vector<int32_t> sampled_;
  std::vector<uint8_t> seq_finite_;
};

std::vector<int32_t> RandomTokens(int count, int vocab_size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocab_size);
  return tokens;
}

class CpuBackendTest : public IsaTest {
 protected:
  // The logits of all tokens, in order, are those of the scalar decoder.
  void CheckSchedule(const Schedule& schedule, bool all_parts) {
    const ScalarDecoder::Spec spec = OddSpec(all_parts);
    const ScalarDecoder decoder(spec);
    std::vector<int> lengths(8, 0);
    for (const auto& step : schedule) {
      for (const Chunk& chunk : step) lengths[chunk.seq] += chunk.num_tokens;
    }
    std::vector<std::vector<int32_t>> tokens;
    std::vector<std::vector<float>> expected;
    for (size_t seq = 0; seq < lengths.size(); ++seq) {
      tokens.push_back(RandomTokens(lengths[seq], spec.shape.vocab_size, 100 + seq));
      expected.push_back(decoder.Logits(tokens.back()));
    }
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
};

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
    const int32_t expected = reference::SampleToken(&logits[logits.size() - spec.shape.vocab_size],
                                                    spec.shape.vocab_size, row);
    ASSERT_EQ(session.sampled(), std::vector<int32_t>{expected});
    known.push_back(expected);
    tokens[0].push_back(-1 - kSlot);  // the last token drawn for the slot
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
  CpuBackend backend({GetParam(), ""}, 2);
  const Backend::Forward forward = decoder.LoadInto(backend, kMaxModelLen);
  ASSERT_TRUE(backend.Reserve(spec.shape, {16, 2, 16, kMaxModelLen}).ok());
  KvSpec kv;
  kv.block_size = kBlockSize;
  kv.num_blocks = 4;
  kv.groups = {{3, 0}};
  kv.group_of_layer = {0, 0, 0};
  kv.index_in_group = {0, 1, 2};
  kv.block_bytes = 3 * 2 * 2 * kBlockSize * 32 * 2;
  ASSERT_TRUE(backend.AllocateKv(kv).ok());

  const std::vector<int32_t> ids = RandomTokens(8, spec.shape.vocab_size, 3);
  const std::vector<int32_t> positions = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<int32_t> slots = {64, 65, 66, 67, 68, 69, 70, 71};
  const std::vector<int32_t> starts = {0, 8}, tables = {2}, rows = {1, 4, 6, 7}, taps = {1, 3};
  HostStep step;
  step.shape = {8, 1, 4, 0};
  step.token_ids = ids;
  step.positions = positions;
  step.slots = slots;
  step.query_starts = starts;
  step.block_tables = tables;
  step.max_blocks = 1;
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

TEST(CpuBackend, RefusesMoreKvThanTheMachineHas) {
  const ScalarDecoder::Spec spec = OddSpec(/*all_parts=*/false);
  CpuBackend backend({CpuIsa::kReference, ""}, 1);
  ASSERT_TRUE(backend.Reserve(spec.shape, {16, 2, 16, kMaxModelLen}).ok());
  KvSpec kv;
  kv.block_size = kBlockSize;
  kv.num_blocks = 1 << 30;
  kv.groups = {{3, 0}};
  kv.group_of_layer = {0, 0, 0};
  kv.index_in_group = {0, 1, 2};
  kv.block_bytes = 3 * 2 * 2 * kBlockSize * 32 * 2;
  const absl::Status status = backend.AllocateKv(kv);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(status.message()).find("26388279066624"), std::string::npos)
      << status.message();
}

TEST(CpuBackend, SaysWhatItRunsOn) {
  const auto backend = CreateCpuBackend({.num_threads = 2, .isa = CpuIsa::kReference});
  ASSERT_TRUE(backend.ok());
  EXPECT_EQ((*backend)->Describe(), "cpu, reference, 2 threads, numerics bf16x2");
  EXPECT_EQ((*backend)->NumericsMode(), "bf16x2");
}

}  // namespace
}  // namespace quire
