#ifndef QUIRE_ENGINE_TOKEN_LISTENER_H_
#define QUIRE_ENGINE_TOKEN_LISTENER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "kernels/sample_row.h"
#include "scheduler/request.h"
#include "scheduler/step_plan.h"

namespace quire {

// What the model said of a generated token, as far as the request wants to know.
struct TokenScores {
  absl::Span<const float> logits;         // [vocab_size] of the row it was drawn from, or empty
  const RowLogprobs* logprobs = nullptr;  // of that row and this token, or null
};

// Where the life of one request is told. Implemented by whoever submitted it (server/, tests).
//
// All calls come from the engine thread, in this order: OnAccepted once, then OnPrompt... and
// OnToken as steps commit, then OnEnd once for each choice: nothing of that choice comes after it.
// A request that is refused gets OnRefused once and nothing else. A listener must return at once:
// it keeps what it heard, it never waits, writes or decodes here. What is to be woken for many of
// them is woken once, by Engine::SetHandOver. Spans and pointers are valid during the call.
class TokenListener {
 public:
  virtual ~TokenListener() = default;

  // In the queue. `cached_tokens` is what the prefix cache holds now; OnEnd has the final count.
  virtual void OnAccepted(int queue_position, int cached_tokens) = 0;
  // Refused by the scheduler: full queue, or a request that can never fit.
  virtual void OnRefused(const absl::Status& status) = 0;
  // The logits [vocab_size] of the prompt row at `position`, where the request wants them.
  virtual void OnPromptLogits(int position, absl::Span<const float> logits) {
    (void)position, (void)logits;
  }
  // The log-probabilities of the prompt's token at `position`, 1 or more, given those before it.
  virtual void OnPromptLogprobs(int position, const RowLogprobs& logprobs) {
    (void)position, (void)logprobs;
  }
  // A generated token of one choice.
  virtual void OnToken(const NewToken& token, const TokenScores& scores) = 0;
  virtual void OnEnd(const EndedSequence& end) = 0;
};

}  // namespace quire

#endif  // QUIRE_ENGINE_TOKEN_LISTENER_H_
