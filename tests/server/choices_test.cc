// Requests with several choices, stop strings and log-probabilities: what a stream says of them.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/server/server_fixture.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ChoicesTest : public ServerFixture {
 protected:
  void SetUp() override { StartServer(); }

  static v1::GenerateRequest ChoicesRequest(uint32_t n) {
    v1::GenerateRequest request = TextRequest("x");
    request.mutable_params()->set_n(n);
    return request;
  }
  // Sends, and accepts.
  SequenceId Begin(const v1::GenerateRequest& request) {
    stream_ = client_->Generate(request);
    const FakeEngine::Submission submission = engine_->WaitForSubmission();
    submitted_ = submission.request;
    engine_->Accept(submission.id);
    return submission.id;
  }
  void TellAndFinish(SequenceId id, const std::string& text) {
    engine_->Tokens(id, Bytes(text));
    engine_->Finish(id, EndReason::kLength);
  }
  Answer Rest() { return TestClient::ReadAll(*stream_); }

  static std::map<uint32_t, std::string> Texts(const Answer& answer) {
    std::map<uint32_t, std::string> texts;
    for (const auto& event : answer.events) {
      if (event.has_delta()) texts[event.delta().index()] += event.delta().text();
    }
    return texts;
  }
  // "0:LENGTH/2 1:STOP/3", in the order in which they finished.
  static std::string Ends(const Answer& answer) {
    std::string ends;
    for (const auto& event : answer.events) {
      if (!event.has_choice_finished()) continue;
      const v1::ChoiceFinished& choice = event.choice_finished();
      absl::StrAppend(&ends, ends.empty() ? "" : " ", choice.index(), ":",
                      v1::FinishReason_Name(choice.finish_reason()).substr(14), "/",
                      choice.completion_tokens());
    }
    return ends;
  }

  std::unique_ptr<ClientStream> stream_;
  std::shared_ptr<const Request> submitted_;
};

TEST_F(ChoicesTest, EachHasItsDeltasAndItsEndAndTheWholeHasOne) {
  const SequenceId id = Begin(ChoicesRequest(3));
  EXPECT_EQ(submitted_->num_choices, 3);
  EXPECT_EQ(Next(*stream_).accepted().params().n(), 3u);
  engine_->Tokens(id + 1, Bytes("one"));
  const v1::Delta delta = Next(*stream_).delta();
  EXPECT_EQ(delta.index(), 1u);
  EXPECT_EQ(delta.token_offset(), 0u);
  TellAndFinish(id + 2, "two!");
  TellAndFinish(id + 1, "!");
  TellAndFinish(id, "zero");
  const Answer answer = Rest();
  auto texts = Texts(answer);
  texts[1] = delta.text() + texts[1];
  EXPECT_EQ(texts, (std::map<uint32_t, std::string>{{0, "zero"}, {1, "one!"}, {2, "two!"}}));
  const v1::Usage usage = answer.events.back().finished().usage();
  EXPECT_EQ(usage.prompt_tokens(), 1u);
  EXPECT_EQ(usage.completion_tokens(), 12u);
  int num_finished = 0;
  for (const auto& event : answer.events) num_finished += event.has_finished() ? 1 : 0;
  EXPECT_EQ(num_finished, 1);
  std::map<uint32_t, uint32_t> counts;
  for (const auto& event : answer.events) {
    if (event.has_choice_finished()) {
      counts[event.choice_finished().index()] = event.choice_finished().completion_tokens();
    }
  }
  EXPECT_EQ(counts, (std::map<uint32_t, uint32_t>{{0, 4}, {1, 4}, {2, 4}}));
  EXPECT_TRUE(answer.status.ok());
}

TEST_F(ChoicesTest, UnstreamedChoicesComeWhenEachIsDone) {
  v1::GenerateRequest request = ChoicesRequest(2);
  request.set_stream(false);
  const SequenceId id = Begin(request);
  EXPECT_TRUE(Next(*stream_).has_accepted());
  engine_->Tokens(id, Bytes("slow"));
  TellAndFinish(id + 1, "fast");
  const v1::Delta first = Next(*stream_).delta();
  EXPECT_EQ(first.index(), 1u);
  EXPECT_EQ(first.text(), "fast");
  EXPECT_EQ(Next(*stream_).choice_finished().index(), 1u);
  TellAndFinish(id, "er");
  const Answer answer = Rest();
  EXPECT_EQ(answer.Shape(), "delta choice(LENGTH) finished OK");
  EXPECT_EQ(answer.text(), "slower");
}

TEST_F(ChoicesTest, AnAbortEndsAllOfThem) {
  v1::GenerateRequest request = ChoicesRequest(3);
  request.set_request_id("three");
  const SequenceId id = Begin(request);
  engine_->Tokens(id, Bytes("a"));
  engine_->Tokens(id + 1, Bytes("bb"));
  engine_->Tokens(id + 2, Bytes("c"));
  engine_->Finish(id + 2, EndReason::kLength);
  engine_->WaitUntilTold();
  v1::AbortRequest abort;
  abort.add_request_ids("three");
  v1::AbortResponse response;
  EXPECT_TRUE(client_->Call("/quire.v1.GenerationService/Abort", abort, &response).ok());
  const Answer answer = Rest();
  EXPECT_TRUE(answer.status.ok()) << answer.Shape();
  EXPECT_THAT(Ends(answer), HasSubstr("0:ABORTED/1"));
  EXPECT_THAT(Ends(answer), HasSubstr("1:ABORTED/2"));
  EXPECT_THAT(Ends(answer), HasSubstr("2:LENGTH/1"));
  EXPECT_EQ(answer.events.back().finished().usage().completion_tokens(), 4u);
}

TEST_F(ChoicesTest, AnAbortBeforeThePromptIsComputedEndsAllOfThem) {
  v1::GenerateRequest request = ChoicesRequest(2);
  request.set_request_id("two");
  Begin(request);
  EXPECT_TRUE(Next(*stream_).has_accepted());
  v1::AbortRequest abort;
  abort.add_request_ids("two");
  v1::AbortResponse response;
  EXPECT_TRUE(client_->Call("/quire.v1.GenerationService/Abort", abort, &response).ok());
  EXPECT_EQ(Rest().Shape(), "choice(ABORTED) choice(ABORTED) finished OK");
}

TEST_F(ChoicesTest, AClientThatGoesAwayEndsAllOfThem) {
  const SequenceId id = Begin(ChoicesRequest(2));
  EXPECT_TRUE(Next(*stream_).has_accepted());
  engine_->Tokens(id, Bytes("a"));
  engine_->Tokens(id + 1, Bytes("a"));
  EXPECT_TRUE(Next(*stream_).has_delta());
  stream_->Cancel();
  EXPECT_EQ(engine_->WaitForEnd(id), EndReason::kCancelled);
  EXPECT_EQ(engine_->WaitForEnd(id + 1), EndReason::kCancelled);
}

TEST_F(ChoicesTest, OneThatFailsEndsTheStreamAndTheOthers) {
  const SequenceId id = Begin(ChoicesRequest(3));
  engine_->Tokens(id, Bytes("abc"));
  engine_->Tokens(id + 1, Bytes("de"));
  engine_->WaitUntilTold();
  engine_->Finish(id + 1, EndReason::kNumericalFault);
  const Answer answer = Rest();
  EXPECT_EQ(answer.status.Summary(), "INTERNAL/NUMERICAL_FAULT");
  EXPECT_EQ(answer.status.info.metadata().at("completion_tokens"), "5");
  EXPECT_EQ(Texts(answer), (std::map<uint32_t, std::string>{{0, "abc"}, {1, "de"}}));
  EXPECT_EQ(Ends(answer), "");
  EXPECT_EQ(engine_->WaitForEnd(id), EndReason::kNumericalFault);
  EXPECT_EQ(engine_->WaitForEnd(id + 2), EndReason::kNumericalFault);
}

TEST_F(ChoicesTest, RulesThatLeaveNoTokenAreTheClientsFault) {
  const SequenceId id = Begin(ChoicesRequest(1));
  engine_->Finish(id, EndReason::kNoTokenAllowed);
  const Answer answer = Rest();
  EXPECT_EQ(answer.status.Summary(), "INVALID_ARGUMENT/NO_TOKEN_ALLOWED");
}

TEST_F(ChoicesTest, AStopStringEndsItsChoiceAndWhatRunsAheadIsInvisible) {
  v1::GenerateRequest request = ChoicesRequest(2);
  request.mutable_params()->add_stop("stop");
  request.mutable_params()->set_logprobs(0);
  const SequenceId id = Begin(request);
  // Two tokens more than the choice has.
  engine_->Tokens(id, Bytes("go stopXY"));
  EXPECT_EQ(engine_->WaitForEnd(id), EndReason::kStop);
  TellAndFinish(id + 1, "go sto");
  const Answer answer = Rest();
  EXPECT_EQ(Texts(answer), (std::map<uint32_t, std::string>{{0, "go "}, {1, "go sto"}}));
  EXPECT_THAT(Ends(answer), HasSubstr("0:STOP/7"));
  EXPECT_THAT(Ends(answer), HasSubstr("1:LENGTH/6"));
  std::vector<uint32_t> ids;
  int num_logprobs = 0;
  for (const auto& event : answer.events) {
    if (event.has_choice_finished() && event.choice_finished().index() == 0) {
      EXPECT_EQ(event.choice_finished().string(), "stop");
    }
    if (!event.has_delta() || event.delta().index() != 0) continue;
    ids.insert(ids.end(), event.delta().token_ids().begin(), event.delta().token_ids().end());
    num_logprobs += event.delta().logprobs_size();
  }
  EXPECT_THAT(ids, ElementsAre('g', 'o', ' ', 's', 't', 'o', 'p'));
  EXPECT_EQ(num_logprobs, 7);
  EXPECT_EQ(answer.events.back().finished().usage().completion_tokens(), 13u);
}

TEST_F(ChoicesTest, AStopStringWinsOverAnEndThatTheEngineReachedMeanwhile) {
  v1::GenerateRequest request = TextRequest("x");
  request.mutable_params()->add_stop("b");
  const SequenceId id = Begin(request);
  engine_->Tokens(id, Bytes("abc"));
  engine_->Finish(id, EndReason::kTimeLimit);
  const Answer answer = Rest();
  EXPECT_EQ(answer.text(), "a");
  EXPECT_EQ(Ends(answer), "0:STOP/2");
}

TEST_F(ChoicesTest, LogprobsStandBesideTheirTokens) {
  v1::GenerateRequest request = TextRequest("x");
  request.mutable_params()->set_logprobs(2);
  const SequenceId id = Begin(request);
  EXPECT_EQ(submitted_->num_logprobs, 2);
  EXPECT_EQ(submitted_->num_prompt_logprobs, -1);
  TellAndFinish(id, "hey");
  const Answer answer = Rest();
  std::string seen;
  double sum = 0;
  for (const auto& event : answer.events) {
    ASSERT_EQ(event.delta().logprobs_size(), event.delta().token_ids_size());
    for (const v1::TokenLogprob& entry : event.delta().logprobs()) {
      const RowLogprobs expected = FakeLogprobs(static_cast<int32_t>(entry.token_id()), 2);
      EXPECT_EQ(entry.logprob(), expected.token.logprob);
      EXPECT_EQ(entry.rank(), static_cast<uint32_t>(expected.rank));
      ASSERT_EQ(entry.top_size(), 2);
      EXPECT_EQ(entry.top(1).token_id(), 1u);
      EXPECT_EQ(entry.top(1).logprob(), -0.25f);
      seen += entry.token_bytes();
      sum += entry.logprob();
    }
    if (event.has_choice_finished()) {
      EXPECT_EQ(event.choice_finished().cumulative_logprob(), sum);
    }
  }
  EXPECT_EQ(seen, "hey");

  const SequenceId without = Begin(TextRequest("x"));
  TellAndFinish(without, "a");
  for (const auto& event : Rest().events) {
    EXPECT_EQ(event.delta().logprobs_size(), 0);
    EXPECT_FALSE(event.choice_finished().has_cumulative_logprob());
  }
}

TEST_F(ChoicesTest, PromptLogprobsComeBeforeTheFirstDeltaInMessagesThatFit) {
  std::string prompt;
  while (prompt.size() < 4000) prompt += "prompt ";
  v1::GenerateRequest request = TextRequest(prompt);
  request.mutable_params()->set_prompt_logprobs(20);
  const SequenceId id = Begin(request);
  EXPECT_EQ(submitted_->num_prompt_logprobs, 20);
  const auto num_tokens = static_cast<int32_t>(prompt.size());
  engine_->PromptLogprobs(id, 1, 1000);
  engine_->PromptLogprobs(id, 500, 1000);  // a preemption: computed again
  engine_->PromptLogprobs(id, 1000, num_tokens);
  TellAndFinish(id, "a");
  const Answer answer = Rest();  // ReadAll checks the size of each message
  int32_t position = 0;
  bool delta_seen = false;
  for (const auto& event : answer.events) {
    delta_seen = delta_seen || event.has_delta();
    if (!event.has_prompt()) continue;
    EXPECT_FALSE(delta_seen);
    const v1::Prompt& part = event.prompt();
    EXPECT_EQ(part.token_offset(), static_cast<uint32_t>(position));
    ASSERT_EQ(part.token_ids_size(), part.logprobs_size());
    for (int i = 0; i < part.logprobs_size(); ++i, ++position) {
      const v1::TokenLogprob& entry = part.logprobs(i);
      const int32_t token_id = prompt[static_cast<size_t>(position)];
      ASSERT_EQ(part.token_ids(i), static_cast<uint32_t>(token_id));
      ASSERT_EQ(entry.token_id(), static_cast<uint32_t>(token_id));
      ASSERT_EQ(entry.token_bytes(), std::string(1, static_cast<char>(token_id)));
      ASSERT_EQ(entry.rank(), position == 0 ? 0u : static_cast<uint32_t>(token_id % 5 + 1));
      ASSERT_EQ(entry.top_size(), position == 0 ? 0 : 20);
    }
  }
  EXPECT_EQ(position, num_tokens);
  EXPECT_TRUE(answer.status.ok());
}

TEST_F(ChoicesTest, APromptOfOneTokenHasNoLogprobToWaitFor) {
  v1::GenerateRequest request = TextRequest("x");
  request.mutable_params()->set_prompt_logprobs(1);
  const SequenceId id = Begin(request);
  TellAndFinish(id, "a");
  const Answer answer = Rest();
  ASSERT_EQ(answer.Shape(), "accepted prompt delta choice(LENGTH) finished OK");
  EXPECT_EQ(answer.events[1].prompt().logprobs(0).rank(), 0u);
}

TEST_F(ChoicesTest, AnAbortAmidThePromptTellsWhatIsKnown) {
  v1::GenerateRequest request = TextRequest("prompt");
  request.mutable_params()->set_prompt_logprobs(0);
  request.set_request_id("mid");
  const SequenceId id = Begin(request);
  EXPECT_TRUE(Next(*stream_).has_accepted());
  engine_->PromptLogprobs(id, 1, 3);
  // In one event or in several, as delivery comes to it.
  for (int num_told = 0; num_told < 3;) {
    const v1::GenerateResponse event = Next(*stream_);
    ASSERT_TRUE(event.has_prompt());
    num_told += event.prompt().token_ids_size();
  }
  engine_->Finish(id, EndReason::kAborted);
  EXPECT_EQ(Rest().Shape(), "choice(ABORTED) finished OK");
}

TEST_F(ChoicesTest, AcceptedEchoesAllThatIsInEffect) {
  v1::GenerateRequest request = TextRequest("abcdef");
  v1::GenerationParams& params = *request.mutable_params();
  params.set_n(2);
  params.set_min_tokens(1);
  params.add_stop("zz");
  params.set_include_stop_str_in_output(true);
  params.set_truncate_prompt_tokens(4);
  params.set_presence_penalty(0.5f);
  params.set_frequency_penalty(-0.5f);
  params.set_repetition_penalty(1.25f);
  (*params.mutable_logit_bias())[9] = 3;
  (*params.mutable_logit_bias())[7] = -2.5f;
  params.add_allowed_token_ids(65);
  params.add_allowed_token_ids(66);
  params.add_bad_words("AB");
  params.set_typical_p(0.75f);
  params.set_top_n_sigma(2);
  params.set_xtc_probability(0.25f);
  params.set_logprobs(3);
  params.set_prompt_logprobs(0);
  const SequenceId id = Begin(request);
  const v1::Accepted accepted = Next(*stream_).accepted();
  EXPECT_EQ(accepted.prompt_tokens(), 4u);
  v1::GenerationParams expected = params;
  expected.set_temperature(0.5f);  // the model's
  expected.set_top_k(0);
  expected.set_top_p(1);
  expected.set_min_p(0);
  expected.set_xtc_threshold(0.1f);
  expected.set_seed(accepted.params().seed());
  expected.set_max_tokens(4096 - 4);
  expected.set_ignore_eos(false);
  expected.set_skip_special_tokens(true);
  expected.set_priority(0);
  expected.set_max_time_ms(3'600'000);
  expected.set_max_queue_ms(0);
  EXPECT_EQ(accepted.params().DebugString(), expected.DebugString());

  EXPECT_EQ(submitted_->prompt_token_ids, Bytes("cdef"));
  EXPECT_EQ(submitted_->sampling.presence_penalty, 0.5f);
  EXPECT_EQ(submitted_->sampling.frequency_penalty, -0.5f);
  EXPECT_EQ(submitted_->sampling.repetition_penalty, 1.25f);
  EXPECT_EQ(submitted_->sampling.typical_p, 0.75f);
  EXPECT_EQ(submitted_->sampling.top_n_sigma, 2);
  EXPECT_EQ(submitted_->sampling.xtc_probability, 0.25f);
  EXPECT_EQ(submitted_->sampling.xtc_threshold, 0.1f);
  const TokenRules& rules = submitted_->rules;
  ASSERT_EQ(rules.logit_bias.size(), 2u);
  EXPECT_EQ(rules.logit_bias[0].token_id, 7);
  EXPECT_EQ(rules.logit_bias[0].bias, -2.5f);
  EXPECT_EQ(rules.logit_bias[1].token_id, 9);
  EXPECT_THAT(rules.allowed_token_ids, ElementsAre(65, 66));
  EXPECT_THAT(rules.bad_words, ElementsAre(ElementsAre('A', 'B')));
  EXPECT_EQ(rules.min_tokens, 1);
  EXPECT_EQ(submitted_->num_logprobs, 3);
  engine_->Finish(id, EndReason::kAborted);
  engine_->Finish(id + 1, EndReason::kAborted);
  EXPECT_TRUE(Rest().status.ok());
}

TEST_F(ChoicesTest, MinTokensBeyondWhatFitsIsRefusedWithTheNumbers) {
  v1::GenerateRequest request = TextRequest("abc");
  request.mutable_params()->set_min_tokens(4094);
  const Answer answer = Ask(request);
  EXPECT_EQ(answer.Shape(), "INVALID_ARGUMENT/CONTEXT_LENGTH_EXCEEDED");
  EXPECT_EQ(answer.status.info.metadata().at("max_tokens"), "4094");
}

}  // namespace
}  // namespace quire
