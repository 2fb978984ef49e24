#include "kernels/cpu/logprobs.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/reference/math.h"

namespace quire {

RowLogprobs LogprobsOf(const CpuOps& ops, const float* logits, int vocab_size, int32_t token_id,
                       int32_t num_top) {
  int32_t ids[kMaxTopLogprobs];
  float values[kMaxTopLogprobs];
  const int num_found = ops.top(logits, vocab_size, std::max(num_top, 1), ids, values);
  WeightSums sums;
  if (num_found > 0) ops.sum_weights(logits, vocab_size, values[0], &sums);
  const double total = static_cast<double>(sums.total) * 0x1p-40;
  const float log_total = sums.total == 0 ? std::numeric_limits<float>::quiet_NaN()
                                          : reference::Log(static_cast<float>(total));
  const auto logprob_of = [&](float logit) {
    return sums.total == 0 ? log_total : (logit - values[0]) - log_total;
  };

  RowLogprobs answer;
  answer.num_top = std::min(num_top, num_found);
  for (int i = 0; i < answer.num_top; ++i) answer.top[i] = {ids[i], logprob_of(values[i])};
  answer.token.token_id = token_id;
  if (token_id == kNoToken) {
    answer.token.logprob = -std::numeric_limits<float>::infinity();
  } else {
    answer.token.logprob = logprob_of(logits[token_id]);
    answer.rank = ops.num_before(logits, vocab_size, token_id) + 1;
  }
  return answer;
}

}  // namespace quire
