#include "server/generation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/errors.h"
#include "server/prompt.h"
#include "server/validation.h"

namespace quire {
namespace {

// Ids in one Prompt event: at most 5 bytes each, well below 1 MiB.
constexpr int64_t kMaxPromptIds = 64 << 10;

double Ms(TimeUs from, TimeUs to) { return static_cast<double>(to - from) / 1000; }

v1::FinishReason FinishReasonOf(EndReason reason) {
  switch (reason) {
    case EndReason::kStop:
      return v1::FINISH_REASON_STOP;
    case EndReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case EndReason::kAborted:
      return v1::FINISH_REASON_ABORTED;
    case EndReason::kTimeLimit:
      return v1::FINISH_REASON_TIME_LIMIT;
    default:
      return v1::FINISH_REASON_UNSPECIFIED;
  }
}

}  // namespace

Generation::Generation(std::string request_id, v1::GenerateRequest request, CallTicket ticket,
                       TimeUs deadline, const ServingModel& model, const ServerLimits& limits,
                       GenerationHost& host, GenerationWriter* writer)
    : request_id_(std::move(request_id)),
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
  if (!status.ok()) FinishLocked(status);
  return status.ok();  // an abort goes on: its usage is promised
}

absl::Status Generation::BuildRequest(Request& request) {
  absl::StatusOr<std::vector<int32_t>> prompt =
      TokenizePrompt(request_, model_.text.get(), model_.info.max_model_len);
  if (!prompt.ok()) return prompt.status();
  request.prompt_token_ids = *std::move(prompt);
  params_ = EffectiveParams(request_.params(), model_, limits_);
  absl::Status status = ResolveMaxTokens(static_cast<int64_t>(request.prompt_token_ids.size()),
                                         model_.info, limits_, params_);
  if (!status.ok()) return status;
  request.sampling.temperature = params_.temperature();
  request.sampling.top_k = params_.top_k();
  request.sampling.top_p = params_.top_p();
  request.sampling.min_p = params_.min_p();
  request.sampling.seed = static_cast<uint64_t>(params_.seed());
  request.max_tokens = static_cast<int32_t>(params_.max_tokens());
  request.stop_token_ids.assign(params_.stop_token_ids().begin(), params_.stop_token_ids().end());
  if (!params_.ignore_eos()) {
    const std::vector<int32_t>& eos = model_.info.eos_token_ids;
    request.stop_token_ids.insert(request.stop_token_ids.end(), eos.begin(), eos.end());
  }
  request.priority = params_.priority();
  request.deadline = deadline_;
  request.time_limit = arrived_at_ + TimeUs{params_.max_time_ms()} * 1000;
  if (params_.max_queue_ms() > 0) {
    request.queue_deadline = arrived_at_ + TimeUs{params_.max_queue_ms()} * 1000;
  }
  return absl::OkStatus();
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
  absl::Status status = BuildRequest(*request);
  if (status.ok() && host_.refuses_new()) status = StatusOfEnd({.reason = EndReason::kDraining});
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (finished_) return;
    if (!status.ok()) {
      FinishLocked(status);
      return;
    }
  }
  const Tokenizer* tokenizer = model_.text == nullptr ? nullptr : &model_.text->tokenizer();
  deltas_.emplace(tokenizer, params_.skip_special_tokens(), request->stop_token_ids);
  engine_request_ = request;
  const absl::StatusOr<SequenceId> id = engine_.Submit(request, shared_from_this());
  if (!id.ok()) {
    status = id.status();
    AddNumbers(status);
  }
  std::optional<EndReason> end_wanted;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!id.ok()) {
      if (!finished_) FinishLocked(std::move(status));
      return;
    }
    sequence_id_ = *id;
    end_wanted = end_wanted_;
  }
  // A drain that began meanwhile may have passed over this sequence.
  if (!end_wanted && host_.refuses_new()) end_wanted = EndReason::kDraining;
  if (end_wanted) engine_.End(*id, *end_wanted);
}

// ---- From the engine ----

void Generation::OnAccepted(int queue_position, int cached_tokens) {
  {
    std::lock_guard<std::mutex> lock(inbox_mu_);
    inbox_.accepted = true;
    inbox_.queue_position = queue_position;
    inbox_.cached_tokens = cached_tokens;
  }
  Wake();
}

void Generation::OnRefused(const absl::Status& status) {
  {
    std::lock_guard<std::mutex> lock(inbox_mu_);
    inbox_.refused = status;
  }
  Wake();
}

void Generation::OnToken(const NewToken& token, const TokenScores& /*scores*/) {
  {
    std::lock_guard<std::mutex> lock(inbox_mu_);
    if (inbox_.first_token_at == 0) inbox_.first_token_at = engine_.Now();
    inbox_.token_ids.push_back(token.token_id);
  }
  num_tokens_.fetch_add(1);
  Wake();
}

void Generation::OnEnd(const EndedSequence& end) {
  {
    std::lock_guard<std::mutex> lock(inbox_mu_);
    inbox_.end = end;
  }
  Wake();
}

void Generation::Wake() {
  if (!wake_pending_.exchange(true)) host_.PumpSoon(shared_from_this());
}

// ---- To the client ----

void Generation::Pump() {
  wake_pending_.store(false);
  {
    std::lock_guard<std::mutex> lock(mu_);
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
        finished_ = true;
        host_.OnFinished(*this, absl::OkStatus());
        writer_->WriteLast(response_);
        return;
      default:
        FinishLocked(final_status_);
        return;
    }
  }
}

void Generation::TakeInbox() {
  seen_.token_ids.clear();
  std::lock_guard<std::mutex> lock(inbox_mu_);
  seen_.token_ids.swap(inbox_.token_ids);  // the two take turns: no allocation once they are large
  seen_.accepted = inbox_.accepted;
  seen_.queue_position = inbox_.queue_position;
  seen_.cached_tokens = inbox_.cached_tokens;
  seen_.refused = inbox_.refused;
  seen_.first_token_at = inbox_.first_token_at;
  seen_.end = inbox_.end;
}

Generation::Step Generation::NextStep() {
  TakeInbox();
  if (!seen_.refused.ok()) {
    final_status_ = seen_.refused;
    AddNumbers(final_status_);
    return Step::kFinish;
  }
  if (!seen_.accepted) return Step::kNothing;
  deltas_->Add(seen_.token_ids);
  if (!accepted_told_) {
    accepted_told_ = true;
    FillAccepted(response_.mutable_accepted());
    return Step::kWrite;
  }
  const auto prompt_tokens = static_cast<int64_t>(engine_request_->prompt_token_ids.size());
  if (request_.return_prompt_token_ids() && prompt_told_ < prompt_tokens) {
    FillPrompt(response_.mutable_prompt());
    return Step::kWrite;
  }
  if (seen_.end) return NextStepAfterEnd();
  if (!stream_ || !deltas_->HasDelta()) return Step::kNothing;
  deltas_->Take(response_.mutable_delta());
  return Step::kWrite;
}

Generation::Step Generation::NextStepAfterEnd() {
  if (!flushed_) {
    flushed_ = true;
    deltas_->Flush();
    final_status_ = StatusOfEnd(*seen_.end);
  }
  // What a failed stream has shown so far is completed; one that shows nothing before the end shows
  // nothing at all.
  if (deltas_->HasDelta() && (stream_ || final_status_.ok())) {
    deltas_->Take(response_.mutable_delta());
    return Step::kWrite;
  }
  if (!final_status_.ok()) {
    AddMetadata(final_status_, "stage",
                seen_.end->first_scheduled_at == kNever ? "queued" : "running");
    AddMetadata(final_status_, "completion_tokens", absl::StrCat(seen_.end->completion_tokens));
    return Step::kFinish;
  }
  if (!choice_told_) {
    choice_told_ = true;
    v1::ChoiceFinished* choice = response_.mutable_choice_finished();
    choice->set_finish_reason(FinishReasonOf(seen_.end->reason));
    if (seen_.end->reason == EndReason::kStop && seen_.end->stop_token_id >= 0) {
      choice->set_token_id(static_cast<uint32_t>(seen_.end->stop_token_id));
    }
    choice->set_completion_tokens(static_cast<uint32_t>(seen_.end->completion_tokens));
    return Step::kWrite;
  }
  FillFinished(response_.mutable_finished());
  return Step::kWriteLast;
}

void Generation::FillAccepted(v1::Accepted* accepted) const {
  accepted->set_request_id(request_id_);
  accepted->set_model(model_.name);
  accepted->set_fingerprint(model_.info.fingerprint);
  *accepted->mutable_params() = params_;
  accepted->set_prompt_tokens(static_cast<uint32_t>(engine_request_->prompt_token_ids.size()));
  accepted->set_cached_tokens(static_cast<uint32_t>(seen_.cached_tokens));
  accepted->set_queue_position(static_cast<uint32_t>(seen_.queue_position));
}

void Generation::FillPrompt(v1::Prompt* prompt) {
  const std::vector<int32_t>& ids = engine_request_->prompt_token_ids;
  const int64_t end =
      std::min<int64_t>(static_cast<int64_t>(ids.size()), prompt_told_ + kMaxPromptIds);
  prompt->set_token_offset(static_cast<uint32_t>(prompt_told_));
  prompt->mutable_token_ids()->Add(ids.begin() + prompt_told_, ids.begin() + end);
  prompt_told_ = end;
}

void Generation::FillFinished(v1::Finished* finished) const {
  const EndedSequence& end = *seen_.end;
  finished->mutable_usage()->set_prompt_tokens(static_cast<uint32_t>(end.prompt_tokens));
  finished->mutable_usage()->set_cached_tokens(static_cast<uint32_t>(end.cached_tokens));
  finished->mutable_usage()->set_completion_tokens(static_cast<uint32_t>(end.completion_tokens));
  v1::Timings* timings = finished->mutable_timings();
  const TimeUs now = engine_.Now();
  timings->set_queued_ms(
      Ms(arrived_at_, end.first_scheduled_at == kNever ? now : end.first_scheduled_at));
  if (seen_.first_token_at != 0) timings->set_ttft_ms(Ms(arrived_at_, seen_.first_token_at));
  timings->set_total_ms(Ms(arrived_at_, now));
}

// ---- Ends ----

void Generation::FinishLocked(absl::Status status) {
  finished_ = true;
  waiting_since_ = engine_.Now();
  AddMetadata(status, "request_id", request_id_);
  host_.OnFinished(*this, status);
  writer_->Finish(status);
}

void Generation::FinishNow(EndReason reason) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (finished_) return;
    absl::Status status = StatusOfEnd({.reason = reason});
    const int32_t num_tokens = num_tokens_.load();
    AddMetadata(status, "stage", num_tokens > 0 ? "running" : "queued");
    AddMetadata(status, "completion_tokens", absl::StrCat(num_tokens));
    FinishLocked(status);
  }
  End(reason);
}

void Generation::OnWritten(bool ok) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    writing_ = false;
  }
  if (ok) {
    Pump();
  } else {
    OnClientGone();
  }
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
  engine_.End(id, reason);
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
