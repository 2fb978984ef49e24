#ifndef QUIRE_ENGINE_TOKEN_LISTENER_H_
#define QUIRE_ENGINE_TOKEN_LISTENER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "scheduler/request.h"
#include "scheduler/step_plan.h"

namespace quire {

// Where the life of one sequence is told. Implemented by whoever submitted it (server/, tests).
//
// All calls come from the engine thread, in this order: OnAccepted once, then OnPromptLogits and
// OnToken as steps commit, then OnEnd once and nothing after it. A sequence that is refused gets
// OnRefused once and nothing else. A listener must return at once: it hands over and wakes, it
// never waits, writes or decodes here.
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
  // A generated token; `logits` [vocab_size] are those it was drawn from where the request wants
  // them, else empty.
  virtual void OnToken(const NewToken& token, absl::Span<const float> logits) = 0;
  virtual void OnEnd(const EndedSequence& end) = 0;
};

}  // namespace quire

#endif  // QUIRE_ENGINE_TOKEN_LISTENER_H_
