#ifndef QUIRE_TESTS_TESTING_FAKE_ENGINE_H_
#define QUIRE_TESTS_TESTING_FAKE_ENGINE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace quire {

// A vocabulary of 256 bytes and a few more, a context of 4096 tokens, EOS 256.
ModelInfo FakeModelInfo();

// What a FakeEngine says of a token, whatever came before it.
RowLogprobs FakeLogprobs(int32_t token_id, int32_t num_top);

// An engine that says what a test tells it to. Listeners hear everything from the engine's own
// thread, in the order in which the test said it, as with a real engine. What the server ends, ends
// in the thread's next turn. Sequences are named by the ids of Submit: the first choice by that of
// the submission, the others by those after it.
//
// Two ways of use, which do not mix: tell it step by step (WaitForSubmission, Accept, Tokens,
// Finish), or let it Generate by itself.
class FakeEngine final : public Engine {
 public:
  struct Submission {
    SequenceId id = 0;
    std::shared_ptr<const Request> request;
  };
  // The token at `index` of a sequence.
  using NextToken = std::function<int32_t(const Request& request, int32_t index)>;

  explicit FakeEngine(ModelInfo info = FakeModelInfo());
  ~FakeEngine() override;

  // ---- Told by the test ----
  // The next one that nobody has waited for. Fails the test, with an empty one, after a minute.
  Submission WaitForSubmission();
  void Accept(SequenceId id, int queue_position = 0, int cached_tokens = 0);
  void Refuse(SequenceId id, const absl::Status& status);
  // Of the prompt's tokens at [begin, end), begin at least 1.
  void PromptLogprobs(SequenceId id, int32_t begin, int32_t end);
  void Tokens(SequenceId id, std::vector<int32_t> token_ids);
  void Finish(SequenceId id, EndReason reason, int32_t stop_token_id = -1);
  // Why the server ended it. Fails the test after a minute.
  EndReason WaitForEnd(SequenceId id);
  // Returns when all that was told so far has been heard.
  void WaitUntilTold();

  // ---- By itself ----
  // Accepts everything and gives every sequence one token a turn, until it stops by its own
  // parameters: stop tokens, max_tokens, time.
  void Generate(NextToken next_token);

  // Submit fails with this from now on.
  void FailSubmits(const absl::Status& status);
  // The heartbeat stands still.
  void StopHeart() { heart_stopped_.store(true); }
  void StartHeart() { heart_stopped_.store(false); }
  // Three blocks leak from now on.
  void Leak() { leaks_.store(true); }
  // Returns when all sequences have ended. Fails the test after a minute.
  void WaitUntilIdle();

  // Engine.
  const ModelInfo& info() const override { return info_; }
  absl::StatusOr<SequenceId> Submit(std::shared_ptr<const Request> request,
                                    std::shared_ptr<TokenListener> listener) override;
  void End(SequenceId id, EndReason reason) override;
  void EndQueued() override;
  void SetHandOver(std::function<void()> hand_over) override;
  TimeUs Now() const override;
  SchedulerStats Stats() const override;
  std::string LeakReport() const override { return leaks_ ? "fake state" : ""; }
  StepTimes Times() const override { return {}; }
  TimeUs Heartbeat() const override;

 private:
  struct Sequence {
    std::shared_ptr<const Request> request;
    // Any of the choices has a token: they are sequences of their own from then on.
    std::shared_ptr<bool> is_forked;
    uint32_t choice = 0;
    std::shared_ptr<TokenListener> listener;
    TimeUs added_at = 0;
    TimeUs first_token_at = kNever;
    int32_t num_tokens = 0;
  };

  void Run();
  void HandOver();
  void Do(std::function<void()> action);
  // Engine thread:
  void Turn();
  void GiveToken(SequenceId id, Sequence& sequence, int32_t token_id);
  void EndSequence(SequenceId id, EndReason reason, int32_t stop_token_id);
  // As Engine::End has it.
  void EndAsAsked(SequenceId id, EndReason reason);

  const ModelInfo info_;
  const TimeUs started_at_;
  std::atomic<bool> heart_stopped_ = false;
  std::atomic<bool> leaks_ = false;

  std::mutex mu_;
  std::condition_variable changed_;
  // Guarded by mu_.
  std::deque<std::function<void()>> actions_;
  std::deque<Submission> submissions_;
  std::map<SequenceId, EndReason> ends_;
  absl::Status submit_status_;
  std::function<void()> hand_over_;
  SequenceId next_id_ = 1;
  int num_live_ = 0;
  bool stopping_ = false;

  // Engine thread only.
  std::map<SequenceId, Sequence> sequences_;
  NextToken next_token_;

  std::thread thread_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_FAKE_ENGINE_H_
