#include "server/cli/token_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace quire::cli {

RowScores ScoreRow(absl::Span<const float> logits, int32_t next_id, int num_top) {
  RowScores scores;
  const auto largest = std::max_element(logits.begin(), logits.end());
  scores.argmax = static_cast<int32_t>(largest - logits.begin());
  double sum = 0;
  for (float logit : logits) sum += std::exp(double{logit} - double{*largest});
  const double log_sum = double{*largest} + std::log(sum);
  if (next_id >= 0) scores.next_logprob = double{logits[next_id]} - log_sum;

  const size_t count = std::min(static_cast<size_t>(num_top), logits.size());
  if (count == 0) return scores;
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(),
      [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  for (size_t i = 0; i < count; ++i) {
    scores.top.push_back({.token_id = ids[i], .logprob = double{logits[ids[i]]} - log_sum});
  }
  return scores;
}

}  // namespace quire::cli
