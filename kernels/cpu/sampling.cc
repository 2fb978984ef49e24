#include "kernels/cpu/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/math.h"
#include "kernels/cpu/reference/sampling.h"
#include "kernels/cpu/sampling_rule.h"

namespace quire {
namespace {

// Distances to tokens at -infinity are larger.
constexpr float kAllFinite = std::numeric_limits<float>::max();

// Order of keys == order of floats (there are no NaNs and no -0 here).
uint32_t KeyOf(float value) {
  const uint32_t bits = BitsOfFloat(value);
  return (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
}

// More than a distance, or one recovered from a weight, is off by rounding.
constexpr float kMoreThanRounding = 1e-3f;

// No token that is farther below the maximum weighs this much.
float DistanceOfWeight(uint64_t weight) {
  if (weight == 0) return kAllFinite;
  return kMoreThanRounding - reference::Log(static_cast<float>(weight) * 0x1p-40f);
}

// The tokens within this distance weigh at least `target`.
float DistanceOfSum(const LevelSums& levels, uint64_t target) {
  for (int k = 0; k < kNumLevels; ++k) {
    if (levels.sum[k] >= target) return kLevels[k];
  }
  return kAllFinite;
}

}  // namespace

TokenSampler::TokenSampler(const CpuOps& ops, int vocab_size)
    : ops_(ops),
      vocab_size_(vocab_size),
      scores_(vocab_size),
      ids_(vocab_size),
      values_(vocab_size),
      weights_(vocab_size),
      keys_(vocab_size),
      undecided_(vocab_size) {}

int32_t TokenSampler::Draw(const float* logits, const SampleRow& row) {
  const float* const edited = Edited(logits, row.edits);
  if (row.temperature == 0) return ops_.argmax(edited, vocab_size_);
  max_ = ops_.scale(edited, vocab_size_, row.temperature, scores_.data());
  if (!std::isfinite(max_)) return ops_.argmax(Edited(logits, row.edits), vocab_size_);

  const DrawKey key = {row.seed, row.choice, row.position, kPurposeDraw};
  if (!HasFilters(row)) {
    if (XtcHappensIn(row)) ExcludeTopScores(row.xtc_threshold);
    return ops_.gumbel_argmax(scores_.data(), vocab_size_, key);
  }
  Filter(row);
  if (XtcHappensIn(row)) ExcludeTopCandidates(row.xtc_threshold);
  return ops_.gumbel_argmax_of(values_.data(), ids_.data(), num_candidates_, key);
}

const float* TokenSampler::Edited(const float* logits, const LogitEdits& edits) {
  if (!edits.any()) return logits;
  std::copy_n(logits, vocab_size_, scores_.begin());
  for (const TokenBias& b : edits.biases) scores_[b.token_id] += b.bias;
  if (!edits.allowed.empty()) {
    ops_.mask(scores_.data(), vocab_size_, edits.allowed.data(), scores_.data());
  }
  for (const int32_t id : edits.banned) scores_[id] = -HUGE_VALF;
  for (const TokenCount& count : edits.counts) {
    scores_[count.token_id] = Penalized(scores_[count.token_id], count, edits);
  }
  return scores_.data();
}

bool TokenSampler::LimitsTop(const SampleRow& row) const {
  return row.top_n_sigma > 0 || row.min_p > 0 || (row.top_k > 0 && row.top_k < vocab_size_);
}

bool TokenSampler::HasFilters(const SampleRow& row) const {
  return LimitsTop(row) || row.typical_p < 1 || row.top_p < 1;
}

void TokenSampler::Filter(const SampleRow& row) {
  // The first filter in use looks at the whole row, the others at what it left.
  const bool by_top = LimitsTop(row);
  const bool by_typical = row.typical_p < 1;
  if (by_top) FilterTop(row);
  if (by_typical) FilterTypical(row.typical_p, /*is_first=*/!by_top);
  if (row.top_p < 1) FilterTopP(row.top_p, /*is_first=*/!by_top && !by_typical);
}

void TokenSampler::FilterTop(const SampleRow& row) {
  Collect(/*center=*/0, DistanceOfTop(row));
  if (row.min_p > 0) KeepHeaviest(MinWeight(row.min_p));
  if (row.top_k > 0 && row.top_k < num_candidates_) {
    SetKeysByScore();
    KeepFirst(row.top_k, /*by_weight=*/false);
  }
}

void TokenSampler::FilterTypical(float typical_p, bool is_first) {
  WeightSums sums;
  if (is_first) {
    ops_.sum_weights(scores_.data(), vocab_size_, max_, &sums);
  } else {
    ops_.sum_weights(values_.data(), num_candidates_, max_, &sums);
  }
  const float center = TypicalCenter(sums.depth, sums.total);
  const uint64_t target = ShareOf(sums.total, typical_p);
  if (is_first) {
    LevelSums levels;
    ops_.sum_levels(scores_.data(), vocab_size_, max_, center, &levels);
    Collect(center, DistanceOfSum(levels, target));
  }
  for (int i = 0; i < num_candidates_; ++i) {
    keys_[i] = ~BitsOfFloat(std::fabs((values_[i] - max_) - center));
  }
  KeepFirst(target, /*by_weight=*/true);
}

void TokenSampler::FilterTopP(float top_p, bool is_first) {
  uint64_t target;
  if (is_first) {
    LevelSums levels;
    ops_.sum_levels(scores_.data(), vocab_size_, max_, /*center=*/0, &levels);
    target = ShareOf(levels.total, top_p);
    Collect(/*center=*/0, DistanceOfSum(levels, target));
  } else {
    target = ShareOf(SumOfCandidates(), top_p);
  }
  SetKeysByScore();
  KeepFirst(target, /*by_weight=*/true);
}

float TokenSampler::DistanceOfTop(const SampleRow& row) const {
  float distance = kAllFinite;
  if (row.top_n_sigma > 0) {
    Spread spread;
    ops_.spread(scores_.data(), vocab_size_, &spread);
    const float limit = row.top_n_sigma * spread.deviation;
    if (limit < distance) distance = limit;
  }
  if (row.min_p > 0) distance = std::min(distance, DistanceOfWeight(MinWeight(row.min_p)));
  // A pass that counts is worth it where much would be collected.
  constexpr float kFar = 5;
  if (row.top_k <= 0 || row.top_k >= vocab_size_ || distance < kFar) return distance;
  LevelCounts levels;
  ops_.count_levels(scores_.data(), vocab_size_, max_, &levels);
  for (int k = 0; k < kNumLevels; ++k) {
    // Near its limit, min_p may leave out some of those counted.
    const bool min_p_keeps = kLevels[k] < distance - kMoreThanRounding;
    if (levels.count[k] >= row.top_k && min_p_keeps) return kLevels[k];
  }
  return distance;
}

void TokenSampler::Collect(float center, float distance) {
  num_candidates_ = ops_.collect(scores_.data(), vocab_size_, max_, center, distance, ids_.data(),
                                 values_.data());
  ops_.weigh(values_.data(), num_candidates_, max_, weights_.data());
}

void TokenSampler::MoveCandidate(int from, int to) {
  ids_[to] = ids_[from];
  values_[to] = values_[from];
  weights_[to] = weights_[from];
}

uint64_t TokenSampler::SumOfCandidates() const {
  uint64_t sum = 0;
  for (int i = 0; i < num_candidates_; ++i) sum += weights_[i];
  return sum;
}

void TokenSampler::KeepHeaviest(uint64_t min_weight) {
  int kept = 0;
  for (int i = 0; i < num_candidates_; ++i) {
    if (weights_[i] >= min_weight) MoveCandidate(i, kept++);
  }
  num_candidates_ = kept;
}

void TokenSampler::SetKeysByScore() {
  for (int i = 0; i < num_candidates_; ++i) keys_[i] = KeyOf(values_[i]);
}

void TokenSampler::KeepFirst(uint64_t target, bool by_weight) {
  Cut cut = FindCut(target, by_weight);
  int kept = 0;
  for (int i = 0; i < num_candidates_; ++i) {
    const bool is_tie = keys_[i] == cut.key && cut.of_ties > 0;
    if (is_tie) cut.of_ties -= by_weight ? std::min(cut.of_ties, weights_[i]) : 1;
    if (keys_[i] > cut.key || is_tie) MoveCandidate(i, kept++);
  }
  num_candidates_ = kept;
}

// Decides the bits of the key from the highest down. At each bit the undecided candidates with the
// bit set come before those without: either the target lies among them, or all of them are kept.
TokenSampler::Cut TokenSampler::FindCut(uint64_t target, bool by_weight) {
  int32_t* begin = undecided_.data();
  int32_t* end = begin + num_candidates_;
  uint32_t differing = 0;  // bits in which keys differ
  for (int i = 0; i < num_candidates_; ++i) {
    begin[i] = i;
    differing |= keys_[i] ^ keys_[0];
  }
  for (int bit = 31; bit >= 0 && end - begin > 1; --bit) {
    if ((differing >> bit & 1) == 0) continue;
    const uint32_t mask = 1u << bit;
    uint64_t sum_of_set = 0;
    int32_t* clear = begin;  // [begin, clear) have the bit set
    for (int32_t* p = begin; p != end; ++p) {
      // A branch would be mispredicted half of the time.
      const int32_t index = *p;
      const uint64_t is_set = (keys_[index] & mask) != 0;
      sum_of_set += (by_weight ? weights_[index] : 1) & (0 - is_set);
      *p = *clear;
      *clear = index;
      clear += is_set;
    }
    if (sum_of_set >= target) {
      end = clear;
    } else {
      target -= sum_of_set;
      begin = clear;
    }
  }
  return {.key = keys_[*begin], .of_ties = target};
}

bool TokenSampler::XtcHappensIn(const SampleRow& row) const {
  if (row.xtc_probability <= 0) return false;
  const auto words =
      reference::Philox({0, static_cast<uint32_t>(row.position), kPurposeXtc, row.choice},
                        {static_cast<uint32_t>(row.seed), static_cast<uint32_t>(row.seed >> 32)});
  return XtcHappens(words[0], row.xtc_probability);
}

void TokenSampler::ExcludeTopCandidates(float xtc_threshold) {
  const uint64_t threshold = ShareOf(SumOfCandidates(), xtc_threshold);
  const int last = LastOfHeaviest(threshold);
  int kept = 0;
  for (int i = 0; i < num_candidates_; ++i) {
    if (weights_[i] < threshold || i == last) MoveCandidate(i, kept++);
  }
  num_candidates_ = kept;
}

void TokenSampler::ExcludeTopScores(float xtc_threshold) {
  WeightSums sums;
  ops_.sum_weights(scores_.data(), vocab_size_, max_, &sums);
  const uint64_t threshold = ShareOf(sums.total, xtc_threshold);
  Collect(/*center=*/0, DistanceOfWeight(threshold));
  const int last = LastOfHeaviest(threshold);
  for (int i = 0; i < num_candidates_; ++i) {
    if (weights_[i] >= threshold && i != last) scores_[ids_[i]] = -HUGE_VALF;
  }
}

int TokenSampler::LastOfHeaviest(uint64_t weight) const {
  int last = -1;
  for (int i = 0; i < num_candidates_; ++i) {
    if (weights_[i] >= weight && (last < 0 || values_[i] <= values_[last])) last = i;
  }
  return last;
}

}  // namespace quire
