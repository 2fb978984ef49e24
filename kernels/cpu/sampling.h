#ifndef QUIRE_KERNELS_CPU_SAMPLING_H_
#define QUIRE_KERNELS_CPU_SAMPLING_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/ops.h"

namespace quire {

// Draws one token from one row of logits. kernels/README.md, "Sampling", has the definition, and
// reference/sampling.h has it as code; this finds the same token without sorting the vocabulary.
//
// One per thread. Memory for one row is taken by the constructor, drawing takes none.
class TokenSampler {
 public:
  // `ops` outlives this.
  TokenSampler(const CpuOps& ops, int vocab_size);

  // logits: [vocab_size], unchanged. O(vocab_size). FTZ and DAZ must be set.
  int32_t Draw(const float* logits, const SampleRow& row);

 private:
  // Of the tokens that a filter looks at: those with key above `key`, and the first `num_ties` of
  // those with that very key.
  struct Cut {
    uint32_t key = 0;
    uint64_t num_ties = 0;
  };

  // A level above which all tokens lie that the first filter in use keeps; -infinity where none of
  // kLevels is deep enough.
  float LevelOfFirstFilter(const LevelSums& sums, const SampleRow& row) const;
  // Makes candidates of the tokens with score - max >= level.
  void CollectCandidates(float max, float level);
  uint64_t SumOfCandidates() const;
  void MoveCandidate(int from, int to);
  void KeepHeaviest(uint64_t min_weight);
  void KeepTop(const Cut& cut);
  // The shortest prefix of the candidates, in order of falling score and rising id, whose weights
  // sum to `target`. Each candidate counts 1, or its weight. REQUIRES: 0 < target <= their sum.
  Cut FindCut(uint64_t target, bool by_weight);

  const CpuOps& ops_;
  const int vocab_size_;

  std::vector<float> scores_;  // [vocab_size]: logits / temperature

  // Candidates: [vocab_size], the first num_candidates_ of them in use, ids ascending.
  int num_candidates_ = 0;
  std::vector<int32_t> ids_;
  std::vector<float> values_;
  std::vector<uint64_t> weights_;
  std::vector<int32_t> undecided_;  // of FindCut: indices of candidates
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_SAMPLING_H_
