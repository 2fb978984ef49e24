#ifndef QUIRE_SERVER_PROMPT_EVENTS_H_
#define QUIRE_SERVER_PROMPT_EVENTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "quire/v1/generation.pb.h"
#include "server/logprob_list.h"

namespace quire {

// What is to be told of the prompt next, within the limits of a message? Owned by one stream, one
// thread at a time.
class PromptEvents {
 public:
  // What one event holds at most: well below the 1 MiB that a message may have.
  static constexpr size_t kMaxTokens = 64 << 10;
  static constexpr size_t kMaxLogprobBytes = 512 << 10;  // the last one may exceed it

  // Nothing is told unless one of the two is wanted. `token_ids` and `tokenizer` (may be null: no
  // bytes) must outlive this.
  PromptEvents(absl::Span<const int32_t> token_ids, bool wants_ids, bool wants_logprobs,
               const Tokenizer* tokenizer);

  // The log-probabilities of the tokens after those that are known; the first token has none.
  void Add(const LogprobList& scores);

  bool HasNext() const { return num_told_ < NumKnown(); }
  // REQUIRES: HasNext().
  void Take(v1::Prompt* prompt);

 private:
  // Of so many tokens all that is wanted is known.
  size_t NumKnown() const;

  const absl::Span<const int32_t> token_ids_;
  const bool wants_any_;
  const bool wants_logprobs_;
  const Tokenizer* const tokenizer_;
  LogprobList scores_;  // of tokens that are not told yet, but the first
  size_t num_told_ = 0;
};

}  // namespace quire

#endif  // QUIRE_SERVER_PROMPT_EVENTS_H_
