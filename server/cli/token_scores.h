#ifndef QUIRE_SERVER_CLI_TOKEN_SCORES_H_
#define QUIRE_SERVER_CLI_TOKEN_SCORES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace quire::cli {

struct ScoredToken {
  int32_t token_id = 0;
  double logprob = 0;
};

// What one row of logits says: log-softmax in double.
struct RowScores {
  int32_t argmax = 0;            // the lowest id among equals
  double next_logprob = 0;       // of the token that follows; 0 where none does
  std::vector<ScoredToken> top;  // descending, ties by lower id
};

// `next_id`: the token that follows, or -1. REQUIRES: logits not empty, next_id below their number.
RowScores ScoreRow(absl::Span<const float> logits, int32_t next_id, int num_top);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_TOKEN_SCORES_H_
