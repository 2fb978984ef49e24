#ifndef QUIRE_KERNELS_CPU_SAMPLING_H_
#define QUIRE_KERNELS_CPU_SAMPLING_H_

#include <cstdint>
#include <vector>

#include "kernels/cpu/ops.h"
#include "kernels/sample_row.h"

namespace quire {

// Draws one token from one row of logits. kernels/sampling.md has the definition, and
// reference/sampling.h has it as code; this finds the same token without sorting the vocabulary.
//
// One per thread. Memory for one row is taken by the constructor, drawing takes none.
class TokenSampler {
 public:
  // `ops` outlives this.
  TokenSampler(const CpuOps& ops, int vocab_size);

  // logits: [vocab_size], unchanged. O(vocab_size). FTZ and DAZ must be set.
  // REQUIRES: tokens of row.edits are in the vocabulary.
  int32_t Draw(const float* logits, const SampleRow& row);

 private:
  // Of the candidates by key: those with a key above `key`, and of those with that very key the
  // first in order of id, until their weights, or their number, reach `of_ties`.
  struct Cut {
    uint32_t key = 0;
    uint64_t of_ties = 0;
  };

  // The logits after edits: the given ones, or scores_.
  const float* Edited(const float* logits, const LogitEdits& edits);
  bool LimitsTop(const SampleRow& row) const;
  bool HasFilters(const SampleRow& row) const;
  // Makes candidates of the tokens that all filters leave.
  void Filter(const SampleRow& row);
  void FilterTop(const SampleRow& row);
  void FilterTypical(float typical_p, bool is_first);
  void FilterTopP(float top_p, bool is_first);
  // How far below the maximum the tokens lie that top_n_sigma, min_p and top_k can leave.
  float DistanceOfTop(const SampleRow& row) const;

  // Makes candidates of the tokens whose score - max is at most `distance` from `center`.
  void Collect(float center, float distance);
  void MoveCandidate(int from, int to);
  uint64_t SumOfCandidates() const;
  void KeepHeaviest(uint64_t min_weight);
  void SetKeysByScore();
  // Keeps the shortest prefix of the candidates, in order of falling key and rising id, whose
  // weights sum to `target`. Each candidate counts 1, or its weight.
  // REQUIRES: 0 < target <= their sum.
  void KeepFirst(uint64_t target, bool by_weight);
  Cut FindCut(uint64_t target, bool by_weight);

  bool XtcHappensIn(const SampleRow& row) const;
  // Excludes tokens of the candidates, or of scores_ where there are no filters.
  void ExcludeTopCandidates(float xtc_threshold);
  void ExcludeTopScores(float xtc_threshold);
  // Of the candidates with at least this weight, the last one in order; -1: there is none.
  int LastOfHeaviest(uint64_t weight) const;

  const CpuOps& ops_;
  const int vocab_size_;

  std::vector<float> scores_;  // [vocab_size]: logits, edited, / temperature
  float max_ = 0;              // of scores_

  // Candidates: [vocab_size], the first num_candidates_ of them in use, ids ascending.
  int num_candidates_ = 0;
  std::vector<int32_t> ids_;
  std::vector<float> values_;
  std::vector<uint64_t> weights_;
  std::vector<uint32_t> keys_;      // of the filter at work: the largest key comes first
  std::vector<int32_t> undecided_;  // of FindCut: indices of candidates
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_SAMPLING_H_
