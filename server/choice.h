#ifndef QUIRE_SERVER_CHOICE_H_
#define QUIRE_SERVER_CHOICE_H_

#include <cstdint>
#include <optional>

#include "quire/v1/generation.pb.h"
#include "scheduler/step_plan.h"
#include "server/delta_builder.h"

namespace quire {

// Which events does one choice of a generation have, and when is it over? It takes what the engine
// says of one sequence; the order among choices and the end of the whole are Generation's.
//
// A stop string ends a choice before the engine knows of it: what the engine says of the sequence
// after that is dropped, however it ends. Owned by one stream, one thread at a time.
class Choice {
 public:
  // `stream`: tokens are told as they come, else when the choice is over. `rules` must outlive
  // this.
  Choice(uint32_t index, const TextRules& rules, bool stream);

  // As DeltaBuilder::Add. True: this token ended the choice by a stop string, and the engine does
  // not know.
  bool Add(int32_t token_id, const LogprobList* scores, size_t score);
  void End(const EndedSequence& end) { end_ = end; }

  // The next event, if there is one now.
  bool Next(v1::GenerateResponse* response);

  // All its events were told, and the engine is done with it.
  bool is_done() const { return is_told_ && end_.has_value(); }
  // It ended in a way that fails the whole generation.
  bool is_failed() const;
  const std::optional<EndedSequence>& end() const { return end_; }
  // By a stop string: no further token counts.
  bool is_stopped() const { return deltas_.stop_string() != nullptr; }
  // REQUIRES: it has ended, by the engine's word or a stop string.
  v1::FinishReason finish_reason() const;
  int32_t num_tokens() const { return deltas_.num_tokens(); }

 private:
  void FillFinished(v1::ChoiceFinished* finished) const;

  const uint32_t index_;
  const bool stream_;
  const bool wants_logprobs_;
  DeltaBuilder deltas_;
  std::optional<EndedSequence> end_;
  bool is_flushed_ = false;
  bool is_told_ = false;  // ChoiceFinished was
};

}  // namespace quire

#endif  // QUIRE_SERVER_CHOICE_H_
