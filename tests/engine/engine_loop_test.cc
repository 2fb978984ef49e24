#include "engine/engine_loop.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "tests/testing/event.h"
#include "tests/testing/fake_backend.h"
#include "tests/testing/sequence_recorder.h"
#include "tests/testing/tiny_engine.h"

namespace quire {
namespace {

std::unique_ptr<EngineLoop> MakeEngine(FakeBackend::OnStep on_step, int max_num_seqs = 8,
                                       int max_queued_requests = 16) {
  return MakeTinyEngine(std::make_unique<FakeBackend>(std::move(on_step)),
                        {.max_num_seqs = max_num_seqs, .max_queued_requests = max_queued_requests});
}

absl::Status Pass(const HostStep&, FakeBackend::Answer*) { return absl::OkStatus(); }

std::shared_ptr<Request> MakeRequest(int prompt_tokens, int max_tokens) {
  auto request = std::make_shared<Request>();
  request->prompt_token_ids.assign(prompt_tokens, 7);
  request->max_tokens = max_tokens;
  return request;
}

// Lets a test hold the engine inside a step.
class Gate {
 public:
  // For on_step: says that a step is running, then waits until it may go on. Open from then on.
  void Pass() {
    if (!entered_.HasHappened()) entered_.Notify();
    open_.Wait();
  }
  void WaitUntilEntered() { entered_.Wait(); }
  void Open() { open_.Notify(); }

 private:
  Event entered_;
  Event open_;
};

// Writes down the order of calls, until all choices have ended.
class Diary : public TokenListener {
 public:
  explicit Diary(int num_choices = 1) : num_left_(num_choices) {}
  void OnAccepted(int, int) override { entries_.push_back("accepted"); }
  void OnRefused(const absl::Status&) override { entries_.push_back("refused"); }
  void OnPromptLogits(int position, absl::Span<const float>) override {
    entries_.push_back(absl::StrCat("prompt@", position));
  }
  void OnToken(const NewToken& token, const TokenScores& scores) override {
    entries_.push_back(absl::StrCat(NameOf(token.choice), "token", token.index, "=", token.token_id,
                                    scores.logits.empty() ? "" : "+logits"));
  }
  void OnEnd(const EndedSequence& end) override {
    entries_.push_back(absl::StrCat(NameOf(end.choice), "end:", end.completion_tokens));
    if (--num_left_ == 0) done_.Notify();
  }
  std::string Read() {
    done_.Wait();
    return absl::StrJoin(entries_, " ");
  }

 private:
  static std::string NameOf(uint32_t choice) {
    return choice == 0 ? "" : absl::StrCat("choice", choice, ".");
  }

  int num_left_;
  std::vector<std::string> entries_;
  Event done_;
};

TEST(EngineLoopTest, AListenerHearsTheLifeOfItsSequenceInOrder) {
  const auto engine = MakeEngine(Pass);
  auto diary = std::make_shared<Diary>();
  ASSERT_TRUE(engine->Submit(MakeRequest(5, 3), diary).ok());
  // The fake device draws the position of the drawn token.
  EXPECT_EQ(diary->Read(), "accepted token0=5 token1=6 token2=7 end:3");
}

TEST(EngineLoopTest, LogitsComeWhereTheyAreWantedOnce) {
  const auto engine = MakeEngine(Pass);
  auto request = MakeRequest(3, 2);
  request->logits = LogitsWanted::kPromptAndGenerated;
  auto diary = std::make_shared<Diary>();
  ASSERT_TRUE(engine->Submit(request, diary).ok());
  EXPECT_EQ(diary->Read(),
            "accepted prompt@0 prompt@1 prompt@2 token0=3+logits token1=4+logits end:2");
}

TEST(EngineLoopTest, AllChoicesAreToldToOneListener) {
  const auto engine = MakeEngine(Pass);
  auto request = MakeRequest(5, 2);
  request->num_choices = 2;
  auto diary = std::make_shared<Diary>(2);
  const auto id = engine->Submit(request, diary);
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(diary->Read(),
            "accepted token0=5 choice1.token0=5 token1=6 choice1.token1=6 end:2 choice1.end:2");
  EXPECT_EQ(*engine->Submit(MakeRequest(1, 1), std::make_shared<Diary>()), *id + 2)
      << "each choice has an id";
}

TEST(EngineLoopTest, RulesSeeTheTokensOfTheirOwnChoice) {
  std::vector<std::string> seen;
  const auto engine = MakeEngine([&](const HostStep& step, FakeBackend::Answer* answer) {
    for (size_t i = 0; i < step.samples.size(); ++i) {
      const SampleRow& row = step.samples[i];
      std::string text = absl::StrCat(row.choice, ":");
      for (const TokenCount& count : row.edits.counts) {
        absl::StrAppend(&text, " ", count.token_id, "x", count.num_generated,
                        count.in_prompt ? "p" : "");
      }
      seen.push_back(text);
      answer->sampled[i] = 20 + static_cast<int32_t>(row.choice);
    }
    return absl::OkStatus();
  });
  auto request = MakeRequest(3, 3);
  request->num_choices = 2;
  request->sampling.presence_penalty = 1;
  auto diary = std::make_shared<Diary>(2);
  ASSERT_TRUE(engine->Submit(request, diary).ok());
  diary->Read();
  EXPECT_EQ(absl::StrJoin(seen, ", "),
            "0: 7x0p, 1: 7x0p, 0: 7x0p 20x1, 1: 7x0p 21x1, 0: 7x0p 20x2, 1: 7x0p 21x2");
}

TEST(EngineLoopTest, WithoutTokensToGenerateAPromptIsOnlyComputed) {
  const auto engine = MakeEngine(Pass);
  auto request = MakeRequest(2, 0);
  request->logits = LogitsWanted::kPromptAndGenerated;
  auto diary = std::make_shared<Diary>();
  ASSERT_TRUE(engine->Submit(request, diary).ok());
  EXPECT_EQ(diary->Read(), "accepted prompt@0 prompt@1 end:0");
}

TEST(EngineLoopTest, AFailedStepEndsItsSequencesAndTheLoopGoesOn) {
  int num_steps = 0;
  const auto engine = MakeEngine([&](const HostStep&, FakeBackend::Answer*) {
    return ++num_steps == 1 ? absl::InternalError("lost") : absl::OkStatus();
  });
  auto failed = std::make_shared<SequenceRecorder>();
  ASSERT_TRUE(engine->Submit(MakeRequest(4, 2), failed).ok());
  ASSERT_TRUE(failed->Wait());
  EXPECT_EQ(failed->end->reason, EndReason::kEngineFailed);
  EXPECT_TRUE(failed->tokens.empty());
  auto next = std::make_shared<SequenceRecorder>();
  ASSERT_TRUE(engine->Submit(MakeRequest(4, 2), next).ok());
  ASSERT_TRUE(next->Wait());
  EXPECT_EQ(next->end->reason, EndReason::kLength);
  EXPECT_EQ(engine->Stats().blocks_held, 0);
}

TEST(EngineLoopTest, AValueThatIsNotFiniteEndsItsSequenceAlone) {
  // The sequence with a prompt of 9 goes wrong; sequences of a step differ by their rows.
  const auto engine = MakeEngine([](const HostStep& step, FakeBackend::Answer* answer) {
    for (int i = 0; i < step.shape.num_seqs; ++i) {
      if (step.query_starts[i + 1] - step.query_starts[i] == 9) answer->seq_finite[i] = 0;
    }
    return absl::OkStatus();
  });
  auto bad = std::make_shared<SequenceRecorder>();
  auto good = std::make_shared<SequenceRecorder>();
  ASSERT_TRUE(engine->Submit(MakeRequest(9, 4), bad).ok());
  ASSERT_TRUE(engine->Submit(MakeRequest(8, 4), good).ok());
  ASSERT_TRUE(bad->Wait());
  ASSERT_TRUE(good->Wait());
  EXPECT_EQ(bad->end->reason, EndReason::kNumericalFault);
  EXPECT_TRUE(bad->tokens.empty());
  EXPECT_EQ(good->end->reason, EndReason::kLength);
  EXPECT_EQ(good->tokens, (std::vector<int32_t>{8, 9, 10, 11}));
}

TEST(EngineLoopTest, AnEndReachesASequenceWhoseStepIsRunning) {
  Gate gate;
  const auto engine = MakeEngine([&](const HostStep&, FakeBackend::Answer*) {
    gate.Pass();
    return absl::OkStatus();
  });
  auto recorder = std::make_shared<SequenceRecorder>();
  const auto id = engine->Submit(MakeRequest(4, 100), recorder);
  ASSERT_TRUE(id.ok());
  gate.WaitUntilEntered();
  engine->End(*id, EndReason::kAborted);
  engine->End(*id, EndReason::kCancelled);  // too late: it ends once
  gate.Open();
  ASSERT_TRUE(recorder->Wait());
  EXPECT_EQ(recorder->end->reason, EndReason::kAborted);
  EXPECT_LE(recorder->tokens.size(), 1u);
  EXPECT_EQ(recorder->end->completion_tokens, static_cast<int>(recorder->tokens.size()));
}

TEST(EngineLoopTest, EndQueuedSparesWhatRuns) {
  Gate gate;
  const auto engine = MakeEngine(
      [&](const HostStep&, FakeBackend::Answer*) {
        gate.Pass();
        return absl::OkStatus();
      },
      /*max_num_seqs=*/1);
  auto running = std::make_shared<SequenceRecorder>();
  auto queued = std::make_shared<SequenceRecorder>();
  ASSERT_TRUE(engine->Submit(MakeRequest(4, 5), running).ok());
  gate.WaitUntilEntered();
  ASSERT_TRUE(engine->Submit(MakeRequest(4, 5), queued).ok());
  engine->EndQueued();
  gate.Open();
  ASSERT_TRUE(running->Wait());
  ASSERT_TRUE(queued->Wait());
  EXPECT_EQ(running->end->reason, EndReason::kLength);
  EXPECT_EQ(queued->end->reason, EndReason::kDraining);
  EXPECT_EQ(queued->end->first_scheduled_at, kNever);
}

// Asks again each time that it is answered: work that never runs out.
class Persistent : public TokenListener, public std::enable_shared_from_this<Persistent> {
 public:
  explicit Persistent(EngineLoop* engine) : engine_(engine) {}
  // Not through the vtable: the destructor of the engine may be running.
  bool Ask() { return engine_->EngineLoop::Submit(MakeRequest(4, 3), shared_from_this()).ok(); }
  void OnAccepted(int, int) override {}
  void OnRefused(const absl::Status&) override { refused = true; }
  void OnToken(const NewToken&, const TokenScores&) override {}
  void OnEnd(const EndedSequence& end) override {
    if (end.reason == EndReason::kDraining) {
      drained = true;
    } else {
      refused = !Ask();
    }
  }

  bool drained = false;
  bool refused = false;

 private:
  EngineLoop* const engine_;
};

TEST(EngineLoopTest, DestructionEndsWhatIsLeft) {
  auto engine = MakeEngine(Pass);
  auto listener = std::make_shared<Persistent>(engine.get());
  ASSERT_TRUE(listener->Ask());
  engine.reset();
  EXPECT_TRUE(listener->drained || listener->refused);
}

TEST(EngineLoopTest, AFullInboxRefusesWithoutWaiting) {
  Gate gate;
  const auto engine = MakeEngine(
      [&](const HostStep&, FakeBackend::Answer*) {
        gate.Pass();
        return absl::OkStatus();
      },
      /*max_num_seqs=*/8, /*max_queued_requests=*/2);
  std::vector<std::shared_ptr<SequenceRecorder>> recorders;
  recorders.push_back(std::make_shared<SequenceRecorder>());
  ASSERT_TRUE(engine->Submit(MakeRequest(4, 1), recorders.back()).ok());
  gate.WaitUntilEntered();
  for (int i = 0; i < 2; ++i) {
    recorders.push_back(std::make_shared<SequenceRecorder>());
    ASSERT_TRUE(engine->Submit(MakeRequest(4, 1), recorders.back()).ok());
  }
  const auto refused = engine->Submit(MakeRequest(4, 1), std::make_shared<SequenceRecorder>());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.status().message().substr(0, 11), "QUEUE_FULL:");
  gate.Open();
  for (auto& recorder : recorders) {
    ASSERT_TRUE(recorder->Wait());
    EXPECT_EQ(recorder->end->reason, EndReason::kLength);
  }
}

// Notes how many steps had been run when its first token came.
class FirstTokenStep : public SequenceRecorder {
 public:
  explicit FirstTokenStep(const int* num_steps) : num_steps_(num_steps) {}
  void OnToken(const NewToken& token, const TokenScores& scores) override {
    if (token.index == 0) step = *num_steps_;
    SequenceRecorder::OnToken(token, scores);
  }
  int step = 0;

 private:
  const int* const num_steps_;
};

TEST(EngineLoopTest, AnArrivalAmongDecodersHasItsFirstTokenWithinItsChunksAndTwoSteps) {
  constexpr int kDecoders = 31, kPrompt = 100;
  Gate start;  // so that all decoders begin together
  Gate gate;
  int num_steps = 0;  // engine thread
  int held_step = 0;
  const auto engine = MakeEngine(
      [&](const HostStep& step, FakeBackend::Answer*) {
        if (++num_steps == 1) start.Pass();
        if (held_step == 0 && step.shape.num_samples == kDecoders &&
            step.shape.num_tokens == kDecoders) {
          held_step = num_steps;
          gate.Pass();
        }
        return absl::OkStatus();
      },
      /*max_num_seqs=*/kDecoders + 1, /*max_queued_requests=*/kDecoders + 1);
  std::vector<std::shared_ptr<SequenceRecorder>> decoders;
  for (int i = 0; i < kDecoders; ++i) {
    decoders.push_back(std::make_shared<SequenceRecorder>());
    ASSERT_TRUE(engine->Submit(MakeRequest(1, 30), decoders.back()).ok());
    if (i == 0) start.WaitUntilEntered();
  }
  start.Open();
  gate.WaitUntilEntered();
  auto arrival = std::make_shared<FirstTokenStep>(&num_steps);
  ASSERT_TRUE(engine->Submit(MakeRequest(kPrompt, 1), arrival).ok());
  gate.Open();
  ASSERT_TRUE(arrival->Wait());
  for (auto& decoder : decoders) ASSERT_TRUE(decoder->Wait());
  // 64 rows per step, 31 of them the decoders': chunks of 33.
  const int chunks = (kPrompt + 32) / 33;
  EXPECT_GE(arrival->step - held_step, chunks);
  EXPECT_LE(arrival->step - held_step, chunks + 2);
}

TEST(EngineLoopTest, WhatCanNeverFitIsRefusedToItsListener) {
  const auto engine = MakeEngine(Pass);
  auto recorder = std::make_shared<SequenceRecorder>();
  ASSERT_TRUE(engine->Submit(MakeRequest(kTinyMaxModelLen, 1), recorder).ok());
  ASSERT_TRUE(recorder->Wait());
  EXPECT_EQ(recorder->refused.code(), absl::StatusCode::kInvalidArgument) << recorder->refused;
  EXPECT_FALSE(recorder->end.has_value());
}

}  // namespace
}  // namespace quire
