#ifndef QUIRE_TESTS_KERNELS_BACKEND_SESSION_H_
#define QUIRE_TESTS_KERNELS_BACKEND_SESSION_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/allocation_count.h"
#include "tests/kernels/scalar_decoder.h"

namespace quire {

inline constexpr int kBlockSize = 32;
inline constexpr int kMaxBlocks = 12;
inline constexpr int kNumBlocks = 40;
inline constexpr int kMaxModelLen = kBlockSize * kMaxBlocks;

// Nothing is a multiple of a vector, a panel or a tile; layer 1 has a window of its own group.
inline ScalarDecoder::Spec OddSpec(bool all_parts) {
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
      : vocab_size_(spec.shape.vocab_size), backend_({isa, ""}, spec.numerics, num_threads) {
    forward_ = decoder.LoadInto(backend_, kMaxModelLen);
    EXPECT_TRUE(backend_.Supports(spec.shape).ok());
    EXPECT_TRUE(backend_.Reserve(spec.shape, {512, 8, 512, 32, kMaxModelLen}).ok());
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
                                       std::vector<SampleRow> samples = {},
                                       std::vector<LogprobRow> logprob_rows = {}) {
    Arrays arrays = Build(chunks, tokens);
    arrays.step.samples = samples;
    arrays.step.shape.num_samples = static_cast<int>(samples.size());
    arrays.step.logprob_rows = logprob_rows;
    arrays.step.shape.num_logprobs = static_cast<int>(logprob_rows.size());
    const int64_t allocations_before = NumAllocations();
    const StepTicket ticket = backend_.Launch(arrays.step, forward_);
    const StepResult result = backend_.Collect(ticket).value();
    EXPECT_EQ(NumAllocations(), allocations_before) << "a step takes nothing from the heap";
    sampled_.assign(result.sampled.begin(), result.sampled.end());
    logprobs_.assign(result.logprobs.begin(), result.logprobs.end());
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
  const std::vector<RowLogprobs>& logprobs() const { return logprobs_; }
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
  std::vector<RowLogprobs> logprobs_;
  std::vector<int32_t> sampled_;
  std::vector<uint8_t> seq_finite_;
};

inline std::vector<int32_t> RandomTokens(int count, int vocab_size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocab_size);
  return tokens;
}

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_BACKEND_SESSION_H_
