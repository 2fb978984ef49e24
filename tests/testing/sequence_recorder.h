#ifndef QUIRE_TESTS_TESTING_SEQUENCE_RECORDER_H_
#define QUIRE_TESTS_TESTING_SEQUENCE_RECORDER_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "engine/token_listener.h"
#include "tests/testing/event.h"

namespace quire {

// A listener that keeps everything it is told. Read it after Wait.
class SequenceRecorder : public TokenListener {
 public:
  void OnAccepted(int queue_position, int cached_tokens) override {
    (void)queue_position;
    accepted_cached_tokens = cached_tokens;
  }
  void OnRefused(const absl::Status& status) override {
    refused = status;
    done_.Notify();
  }
  void OnPromptLogits(int position, absl::Span<const float> logits) override {
    (void)position;
    prompt_logits.emplace_back(logits.begin(), logits.end());
  }
  void OnToken(const NewToken& token, const TokenScores& scores) override {
    tokens.push_back(token.token_id);
    const absl::Span<const float> logits = scores.logits;
    if (!logits.empty()) generated_logits.emplace_back(logits.begin(), logits.end());
  }
  void OnEnd(const EndedSequence& ended) override {
    end = ended;
    done_.Notify();
  }

  // False: the sequence did not end within a minute.
  [[nodiscard]] bool Wait() { return done_.Wait(); }

  int accepted_cached_tokens = -1;
  absl::Status refused;
  std::vector<int32_t> tokens;
  std::vector<std::vector<float>> prompt_logits;     // [num_prompt_tokens][vocab_size]
  std::vector<std::vector<float>> generated_logits;  // [num_tokens][vocab_size]
  std::optional<EndedSequence> end;

 private:
  Event done_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_SEQUENCE_RECORDER_H_
