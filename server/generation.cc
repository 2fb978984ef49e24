#include "server/generation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/engine_request.h"
#include "server/errors.h"

namespace quire {
namespace {

double Ms(TimeUs from, TimeUs to) { return static_cast<double>(to - from) / 1000; }

}  // namespace

Generation::Generation(CallOrigin origin, v1::GenerateRequest request, CallTicket ticket,
                       TimeUs deadline, const ServingModel& model, const ServerLimits& limits,
                       GenerationHost& host, GenerationWriter* writer)
    : origin_(std::move(origin)),
      request_(std::move(request)),
      ticket_(std::move(ticket)),
      deadline_(deadline),
      model_(model),
      limits_(limits),
      host_(host),
      engine_(*model.engine),
      arrived_at_(engine_.Now()),
      stream_(!request_.has_stream() || request_.stream()),
      writer_(writer) {}

// ---- Before the engine ----

bool Generation::IsWanted() {
  std::lock_guard<std::mutex> lock(mu_);
  if (finished_) return false;
  if (!end_wanted_) return true;
  const absl::Status status = StatusOfEnd({.reason = *end_wanted_});
  if (!status.ok()) FinishLocked(status, 0);
  return status.ok();  // an abort goes on: its usage is promised
}

void Generation::AddNumbers(absl::Status& status) const {
  const std::string reason = ReasonOf(status);
  if (reason == "QUEUE_FULL") {
    const SchedulerStats stats = engine_.Stats();
    AddMetadata(status, "limit", absl::StrCat(model_.max_queued_requests));
    AddMetadata(status, "current", absl::StrCat(stats.num_waiting));
    AddMetadata(status, "queued_prefill_tokens", absl::StrCat(stats.queued_prefill_tokens));
  } else if (reason == "CONTEXT_LENGTH_EXCEEDED") {
    AddMetadata(status, "limit", absl::StrCat(model_.info.max_model_len));
  } else if (reason == "REQUEST_EXCEEDS_KV_CAPACITY") {
    AddMetadata(status, "limit",
                absl::StrCat(int64_t{model_.info.num_blocks} * model_.info.block_size));
  }
  AddMetadata(status, "prompt_tokens", absl::StrCat(engine_request_->prompt_token_ids.size()));
  AddMetadata(status, "max_tokens", absl::StrCat(engine_request_->max_tokens));
}

void Generation::Prepare() {
  if (!IsWanted()) return;
  auto request = std::make_shared<Request>();
  absl::Status status = BuildEngineRequest(request_, model_, limits_, params_, *request);
  if (status.ok() && host_.refuses_new()) status = StatusOfEnd({.reason = EndReason::kDraining});
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (finished_) return;
    if (!status.ok()) {
      FinishLocked(status, 0);
      return;
    }
    num_ends_due_ = request->num_choices;
  }
  request->deadline = deadline_;
  // What one tenant's prompts have in common with another's must not show in its times.
  request->cache_salt = std::string(origin_.tenant_name());
  SetTimes(params_, arrived_at_, *request);
  SetUp(request);
  const absl::StatusOr<SequenceId> id = engine_.Submit(request, shared_from_this());
  if (!id.ok()) {
    status = id.status();
    AddNumbers(status);
  }
  std::optional<EndReason> end_wanted;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!id.ok()) {
      num_ends_due_ = 0;
      if (finished_) {
        RecordIfOverLocked();
      } else {
        FinishLocked(std::move(status), 0);
      }
      return;
    }
    sequence_id_ = *id;
    end_wanted = end_wanted_;
  }
  // A drain that began meanwhile may have passed over this sequence.
  if (!end_wanted && host_.refuses_new()) end_wanted = EndReason::kDraining;
  if (end_wanted) EndAll(*id, *end_wanted);
}

void Generation::SetUp(std::shared_ptr<const Request> request) {
  engine_request_ = std::move(request);
  text_rules_ = MakeTextRules(params_, model_, *engine_request_);
  choices_.reserve(static_cast<size_t>(engine_request_->num_choices));
  for (int32_t i = 0; i < engine_request_->num_choices; ++i) {
    choices_.emplace_back(static_cast<uint32_t>(i), *text_rules_, stream_);
  }
  last_token_at_.resize(choices_.size());
  prompt_.emplace(engine_request_->prompt_token_ids, request_.return_prompt_token_ids(),
                  engine_request_->num_prompt_logprobs >= 0, text_rules_->tokenizer);
}

// ---- From the engine ----

void Generation::OnAccepted(int queue_position, int cached_tokens) {
  UseQuota(static_cast<int64_t>(engine_request_->prompt_token_ids.size()));
  {
    std::lock_guard<std::mutex> lock(inbox_mu_);
    inbox_.accepted = true;
    engine_ends_.is_accepted = true;
    inbox_.queue_position = queue_position;
    inbox_.cached_tokens = cached_tokens;
  }
  Wake();
}

void Generation::OnRefused(const absl::Status& status) {
  {
    std::lock_guard<std::mutex> lock(inbox_mu_);
    inbox_.refused = status;
    engine_ends_.is_refused = true;
  }
  Wake();
}

void Generation::OnPromptLogprobs(int position, const RowLogprobs& logprobs) {
  if (position != num_prompt_scores_ + 1) return;  // computed again, after a preemption
  ++num_prompt_scores_;
  {
    std::lock_guard<std::mutex> lock(inbox_mu_);
    inbox_.prompt_scores.Append(logprobs);
  }
  Wake();
}

void Generation::OnToken(const NewToken& token, const TokenScores& scores) {
  {
    const TimeUs now = engine_.Now();
    std::lock_guard<std::mutex> lock(inbox_mu_);
    if (inbox_.first_token_at == 0) inbox_.first_token_at = now;
    inbox_.tokens.push_back(token);
    inbox_.token_times.push_back(now);
    if (scores.logprobs != nullptr) inbox_.scores.Append(*scores.logprobs);
  }
  num_tokens_.fetch_add(1);
  Wake();
}

void Generation::OnEnd(const EndedSequence& end) {
  {
    std::lock_guard<std::mutex> lock(inbox_mu_);
    inbox_.ends.push_back(end);
    ++engine_ends_.num_ended;
    engine_ends_.num_preemptions += end.num_preemptions;
    if (end.choice == 0) engine_ends_.first = end;
  }
  Wake();
}

void Generation::Wake() {
  if (!wake_pending_.exchange(true)) host_.PumpSoon(shared_from_this());
}

// ---- To the client ----

void Generation::Pump() {
  wake_pending_.store(false);
  Advance();
}

void Generation::Advance() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    RecordIfOverLocked();
    if (finished_ || writing_) return;
    if (building_) {
      build_again_ = true;
      return;
    }
    building_ = true;
  }
  for (;;) {
    response_.Clear();
    const Step step = NextStep();
    std::lock_guard<std::mutex> lock(mu_);
    if (!finished_) CountLocked(num_completion_tokens());
    if (step == Step::kNothing && build_again_ && !finished_) {
      build_again_ = false;
      continue;
    }
    building_ = false;
    build_again_ = false;
    if (finished_ || step == Step::kNothing) return;
    waiting_since_ = engine_.Now();
    switch (step) {
      case Step::kWrite:
        writing_ = true;
        writer_->Write(response_);
        return;
      case Step::kWriteLast:
        SettleLocked({.finish_reason = choices_[0].finish_reason(),
                      .completion_tokens = counted_tokens_,
                      .at = told_end_at_});
        writer_->WriteLast(response_);
        return;
      default:
        FinishLocked(final_status_, counted_tokens_);
        return;
    }
  }
}

void Generation::TakeInbox() {
  seen_.prompt_scores.Clear();
  seen_.tokens.clear();
  seen_.token_times.clear();
  seen_.scores.Clear();
  seen_.ends.clear();
  std::lock_guard<std::mutex> lock(inbox_mu_);
  // The two take turns: no allocation once they are large.
  std::swap(seen_.prompt_scores, inbox_.prompt_scores);
  std::swap(seen_.tokens, inbox_.tokens);
  std::swap(seen_.token_times, inbox_.token_times);
  std::swap(seen_.scores, inbox_.scores);
  std::swap(seen_.ends, inbox_.ends);
  seen_.accepted = inbox_.accepted;
  seen_.queue_position = inbox_.queue_position;
  seen_.cached_tokens = inbox_.cached_tokens;
  seen_.refused = inbox_.refused;
  seen_.first_token_at = inbox_.first_token_at;
}

void Generation::GiveToChoices() {
  prompt_->Add(seen_.prompt_scores);
  const bool has_scores = !seen_.scores.empty();
  for (size_t i = 0; i < seen_.tokens.size(); ++i) {
    const NewToken& token = seen_.tokens[i];
    Choice& choice = choices_[token.choice];
    if (!choice.is_stopped()) CountGap(token.choice, seen_.token_times[i]);
    const bool is_stopped = choice.Add(token.token_id, has_scores ? &seen_.scores : nullptr, i);
    if (is_stopped) engine_.End(token.id, EndReason::kStop);
  }
  for (const EndedSequence& end : seen_.ends) {
    choices_[end.choice].End(end);
    if (choices_[end.choice].is_failed() && final_status_.ok()) Fail(end);
  }
}

void Generation::Fail(const EndedSequence& end) {
  EndedSequence whole = end;
  whole.completion_tokens = static_cast<int32_t>(num_completion_tokens());
  final_status_ = StatusOfEnd(whole);
  AddMetadata(final_status_, "stage", end.first_scheduled_at == kNever ? "queued" : "running");
  AddMetadata(final_status_, "completion_tokens", absl::StrCat(whole.completion_tokens));
  if (choices_.size() > 1) EndAll(end.id - end.choice, end.reason);
}

Generation::Step Generation::NextStep() {
  TakeInbox();
  if (!seen_.refused.ok()) {
    final_status_ = seen_.refused;
    AddNumbers(final_status_);
    return Step::kFinish;
  }
  if (!seen_.accepted) return Step::kNothing;
  GiveToChoices();
  if (!accepted_told_) {
    accepted_told_ = true;
    FillAccepted(response_.mutable_accepted());
    return Step::kWrite;
  }
  if (prompt_->HasNext()) {
    prompt_->Take(response_.mutable_prompt());
    return Step::kWrite;
  }
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[next_choice_];
    next_choice_ = (next_choice_ + 1) % choices_.size();
    if (choice.Next(&response_)) return Step::kWrite;
  }
  if (!final_status_.ok()) return Step::kFinish;
  for (const Choice& choice : choices_) {
    if (!choice.is_done()) return Step::kNothing;
  }
  FillFinished(response_.mutable_finished());
  return Step::kWriteLast;
}

int64_t Generation::num_completion_tokens() const {
  int64_t sum = 0;
  for (const Choice& choice : choices_) sum += choice.num_tokens();
  return sum;
}

void Generation::FillAccepted(v1::Accepted* accepted) const {
  accepted->set_request_id(request_id());
  accepted->set_model(model_.name);
  accepted->set_fingerprint(model_.info.fingerprint);
  *accepted->mutable_params() = params_;
  accepted->set_prompt_tokens(static_cast<uint32_t>(engine_request_->prompt_token_ids.size()));
  accepted->set_cached_tokens(static_cast<uint32_t>(seen_.cached_tokens));
  accepted->set_queue_position(static_cast<uint32_t>(seen_.queue_position));
}

void Generation::FillFinished(v1::Finished* finished) {
  const EndedSequence& end = *choices_[0].end();
  finished->mutable_usage()->set_prompt_tokens(static_cast<uint32_t>(end.prompt_tokens));
  finished->mutable_usage()->set_cached_tokens(static_cast<uint32_t>(end.cached_tokens));
  finished->mutable_usage()->set_completion_tokens(static_cast<uint32_t>(num_completion_tokens()));
  v1::Timings* timings = finished->mutable_timings();
  const TimeUs now = engine_.Now();
  told_end_at_ = now;
  timings->set_queued_ms(
      Ms(arrived_at_, end.first_scheduled_at == kNever ? now : end.first_scheduled_at));
  if (seen_.first_token_at != 0) timings->set_ttft_ms(Ms(arrived_at_, seen_.first_token_at));
  timings->set_total_ms(Ms(arrived_at_, now));
}

// ---- Ends ----

void Generation::FinishNow(EndReason reason) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (finished_) return;
    absl::Status status = StatusOfEnd({.reason = reason});
    const int64_t num_tokens = std::max<int64_t>(num_tokens_.load(), counted_tokens_);
    AddMetadata(status, "stage", num_tokens > 0 ? "running" : "queued");
    AddMetadata(status, "completion_tokens", absl::StrCat(num_tokens));
    FinishLocked(status, num_tokens);
  }
  End(reason);
}

void Generation::OnWritten(bool ok) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    writing_ = false;
  }
  if (!ok) return OnClientGone();
  Advance();
}

void Generation::OnClientGone() {
  FinishNow(engine_.Now() >= deadline_ ? EndReason::kDeadline : EndReason::kCancelled);
}

void Generation::OnClosed() {
  std::lock_guard<std::mutex> lock(mu_);
  writer_ = nullptr;
}

void Generation::End(EndReason reason) {
  SequenceId id = 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!sequence_id_) {
      if (!end_wanted_) end_wanted_ = reason;
      return;
    }
    id = *sequence_id_;
  }
  EndAll(id, reason);
}

void Generation::EndAll(SequenceId first_id, EndReason reason) {
  // The first one first: before the prompt is computed it is the only one that can be ended.
  for (int32_t i = 0; i < engine_request_->num_choices; ++i) {
    engine_.End(first_id + static_cast<SequenceId>(i), reason);
  }
}

void Generation::CheckProgress(TimeUs now) {
  bool slow = false;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (writer_ == nullptr || now - waiting_since_ < limits_.slow_reader_timeout_ms * 1000) return;
    // The status waits behind what the client does not read: it had a second chance.
    if (finished_) writer_->Cancel();
    slow = writing_ && !finished_;
  }
  if (slow) FinishNow(EndReason::kSlowConsumer);
}

}  // namespace quire
