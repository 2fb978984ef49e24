#include "kernels/cpu/sampling.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/sampling_rule.h"

namespace quire {
namespace {

// Order of keys == order of floats (there are no NaNs and no -0 here).
uint32_t KeyOf(float value) {
  const uint32_t bits = BitsOfFloat(value);
  return (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
}

}  // namespace

TokenSampler::TokenSampler(const CpuOps& ops, int vocab_size)
    : ops_(ops),
      vocab_size_(vocab_size),
      scores_(vocab_size),
      ids_(vocab_size),
      values_(vocab_size),
      weights_(vocab_size),
      undecided_(vocab_size) {}

int32_t TokenSampler::Draw(const float* logits, const SampleRow& row) {
  if (row.temperature == 0) return ops_.argmax(logits, vocab_size_);
  const float max = ops_.scale(logits, vocab_size_, row.temperature, scores_.data());
  if (!std::isfinite(max)) return ops_.argmax(logits, vocab_size_);

  const DrawKey key = {row.seed, row.choice, row.position, kPurposeDraw};
  const bool by_k = row.top_k > 0 && row.top_k < vocab_size_;
  const bool by_p = row.top_p < 1;
  if (!by_k && !by_p && row.min_p <= 0) {
    return ops_.gumbel_argmax(scores_.data(), vocab_size_, key);
  }
  LevelSums sums;
  ops_.sum_levels(scores_.data(), vocab_size_, max, &sums);
  CollectCandidates(max, LevelOfFirstFilter(sums, row));
  if (row.min_p > 0) KeepHeaviest(MinWeight(row.min_p));
  if (by_k && row.top_k < num_candidates_) KeepTop(FindCut(row.top_k, /*by_weight=*/false));
  if (by_p) {
    // Where no filter came before, what was not collected counts in the total.
    const uint64_t total = row.min_p > 0 || by_k ? SumOfCandidates() : sums.total;
    KeepTop(FindCut(TopPTarget(row.top_p, total), /*by_weight=*/true));
  }
  return ops_.gumbel_argmax_of(values_.data(), ids_.data(), num_candidates_, key);
}

float TokenSampler::LevelOfFirstFilter(const LevelSums& sums, const SampleRow& row) const {
  // exp of kLevels, and a bit more: a weight above it belongs to a score above the level.
  constexpr float kExpOfLevels[kNumLevels] = {0.01832f, 3.356e-4f, 1.126e-7f};
  for (int k = 0; k < kNumLevels; ++k) {
    bool holds_all;
    if (row.min_p > 0) {
      holds_all = row.min_p > kExpOfLevels[k];
    } else if (row.top_k > 0 && row.top_k < vocab_size_) {
      holds_all = sums.count[k] >= row.top_k;
    } else {
      holds_all = sums.sum[k] >= TopPTarget(row.top_p, sums.total);
    }
    if (holds_all) return kLevels[k];
  }
  return -HUGE_VALF;
}

void TokenSampler::CollectCandidates(float max, float level) {
  num_candidates_ =
      ops_.collect_above(scores_.data(), vocab_size_, max, level, ids_.data(), values_.data());
  ops_.weigh(values_.data(), num_candidates_, max, weights_.data());
}

uint64_t TokenSampler::SumOfCandidates() const {
  uint64_t sum = 0;
  for (int i = 0; i < num_candidates_; ++i) sum += weights_[i];
  return sum;
}

void TokenSampler::MoveCandidate(int from, int to) {
  ids_[to] = ids_[from];
  values_[to] = values_[from];
  weights_[to] = weights_[from];
}

void TokenSampler::KeepHeaviest(uint64_t min_weight) {
  int kept = 0;
  for (int i = 0; i < num_candidates_; ++i) {
    if (weights_[i] >= min_weight) MoveCandidate(i, kept++);
  }
  num_candidates_ = kept;
}

void TokenSampler::KeepTop(const Cut& cut) {
  int kept = 0;
  uint64_t ties = cut.num_ties;
  for (int i = 0; i < num_candidates_; ++i) {
    const uint32_t key = KeyOf(values_[i]);
    const bool is_tie = key == cut.key && ties > 0;
    if (is_tie) --ties;
    if (key > cut.key || is_tie) MoveCandidate(i, kept++);
  }
  num_candidates_ = kept;
}

// Decides the bits of the key from the highest down. At each bit the undecided candidates with the
// bit set come before those without: either the target lies among them, or all of them are kept.
TokenSampler::Cut TokenSampler::FindCut(uint64_t target, bool by_weight) {
  const auto weight_of = [&](int32_t i) { return by_weight ? weights_[i] : uint64_t{1}; };
  int32_t* begin = undecided_.data();
  int32_t* end = begin + num_candidates_;
  for (int i = 0; i < num_candidates_; ++i) begin[i] = i;
  Cut cut;
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t mask = 1u << bit;
    uint64_t sum_of_set = 0;
    int32_t* clear = begin;  // [begin, clear) have the bit set
    for (int32_t* p = begin; p != end; ++p) {
      if (!(KeyOf(values_[*p]) & mask)) continue;
      sum_of_set += weight_of(*p);
      std::swap(*p, *clear++);
    }
    if (sum_of_set >= target) {
      cut.key |= mask;
      end = clear;
    } else {
      target -= sum_of_set;
      begin = clear;
    }
  }
  // What is left has equal scores, so equal weights.
  const uint64_t weight = weight_of(*begin);
  cut.num_ties = (target + weight - 1) / weight;
  return cut;
}

}  // namespace quire
