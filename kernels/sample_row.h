#ifndef QUIRE_KERNELS_SAMPLE_ROW_H_
#define QUIRE_KERNELS_SAMPLE_ROW_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"

namespace quire {

// Added to the logit of one token.
struct TokenBias {
  int32_t token_id = 0;
  float bias = 0;
};

// How often one token has been seen in a sequence.
struct TokenCount {
  int32_t token_id = 0;
  int32_t num_generated = 0;  // times it was generated
  bool in_prompt = false;
};

// What is done to a row of logits before anything else of a draw, in the order of the fields, to a
// copy: the row itself keeps what the model said. The same token may be in several of these, in
// each of them once.
struct LogitEdits {
  absl::Span<const TokenBias> biases = {};  // logit += bias
  // Bit id % 32 of word id / 32: the token may be drawn. [ceil(vocab_size / 32)]; empty: all may.
  absl::Span<const uint32_t> allowed = {};
  absl::Span<const int32_t> banned = {};  // may not be drawn, whatever their logits
  // Every token of the sequence so far, where one of the penalties below is in use.
  absl::Span<const TokenCount> counts = {};
  float repetition_penalty = 1;  // of tokens seen: logit > 0 ? logit / r : logit * r
  float frequency_penalty = 0;   // of tokens generated: logit -= f * num_generated
  float presence_penalty = 0;    // of tokens generated: logit -= p

  bool any() const {
    return !biases.empty() || !allowed.empty() || !banned.empty() || !counts.empty();
  }
};

// One token to draw. See kernels/sampling.md for the definition.
struct SampleRow {
  int32_t logit_row = 0;
  // The drawn token becomes this slot's "last token". -1: nobody's.
  int32_t seq_slot = 0;
  LogitEdits edits = {};
  float temperature = 0;      // 0: greedy
  float top_n_sigma = 0;      // 0: off
  float min_p = 0;            // 0: off
  int32_t top_k = 0;          // 0: off
  float typical_p = 1;        // 1: off
  float top_p = 1;            // 1: off
  float xtc_probability = 0;  // 0: off
  float xtc_threshold = 0;
  uint64_t seed = 0;
  uint32_t choice = 0;
  int32_t position = 0;  // of the token drawn: the counter of the random numbers
};

// SampleRow's answer where every token is banned.
inline constexpr int32_t kNoToken = -1;

inline constexpr int kMaxTopLogprobs = 20;

// Asks for log-probabilities of one row of logits, as the model gave them: before edits and
// temperature.
struct LogprobRow {
  int32_t logit_row = 0;
  int32_t token_id = 0;  // -1 - i: the token that samples[i] draws
  int32_t num_top = 0;   // at most kMaxTopLogprobs, and at most vocab_size
};

struct TokenLogprob {
  int32_t token_id = 0;
  float logprob = 0;
};

// The answer to a LogprobRow. Order of tokens: falling logit, then rising id.
struct RowLogprobs {
  TokenLogprob token;  // the one asked for
  int32_t rank = 0;    // of `token` in that order, from 1
  int32_t num_top = 0;
  std::array<TokenLogprob, kMaxTopLogprobs> top;  // the first num_top in that order
};

}  // namespace quire

#endif  // QUIRE_KERNELS_SAMPLE_ROW_H_
