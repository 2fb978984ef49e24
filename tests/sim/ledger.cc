#include "tests/sim/ledger.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace quire {
namespace {

uint32_t BitOf(EndReason reason) { return 1u << static_cast<int>(reason); }

bool IsStop(const Request& request, int32_t token) {
  return std::find(request.stop_token_ids.begin(), request.stop_token_ids.end(), token) !=
         request.stop_token_ids.end();
}

}  // namespace

// ---- into the queue ----

void Ledger::Submitted(SequenceId id, const std::shared_ptr<Request>& request) {
  ++coverage_.requests;
  for (int32_t choice = 0; choice < request->num_choices; ++choice) {
    LiveSequence& sequence = live_[id + choice];
    sequence.request = request;
    sequence.first_id = id;
    sequence.choice = choice;
    sequence.state = choice == 0 ? SimState::kQueued : SimState::kUnborn;
    sequence.truth = ShadowTruth(*request, choice, config_.group_windows, vocab_size_);
    const int32_t num_prompt = sequence.num_prompt();
    for (int32_t i = 0; i < request->max_tokens; ++i) {
      ++sequence.natural_tokens;
      if (!IsStop(*request, sequence.truth.tokens[num_prompt + i])) continue;
      sequence.natural_end = EndReason::kStop;
      break;
    }
  }
}

// Why a request can never be served; "" if it can. Window groups need at most a block for each
// block_size positions; `at_most`: they are reckoned like that, else they are reckoned as nothing.
std::string Ledger::WhyImpossible(const LiveSequence& sequence, bool at_most) const {
  const Request& request = *sequence.request;
  const int32_t prompt = sequence.num_prompt();
  if (config_.max_model_len > 0 && prompt + request.max_tokens > config_.max_model_len) {
    return "CONTEXT_LENGTH_EXCEEDED: ";
  }
  const int32_t positions = prompt + std::max(0, request.max_tokens - 1);
  int32_t blocks = 0;
  for (const int32_t window : config_.group_windows) {
    if (window > 0 && !at_most) continue;
    blocks += (positions + config_.block_size - 1) / config_.block_size;
  }
  return blocks > config_.num_blocks ? "REQUEST_EXCEEDS_KV_CAPACITY: " : "";
}

bool Ledger::IsQueueFull(const LiveSequence& sequence, const SchedulerStats& before) const {
  const bool is_long =
      config_.max_queued_prefill_tokens > 0 && before.num_waiting > 0 &&
      before.queued_prefill_tokens + sequence.num_prompt() > config_.max_queued_prefill_tokens;
  return is_long || before.num_waiting >= config_.max_queued_requests;
}

void Ledger::Added(SequenceId id, const absl::StatusOr<AddResult>& added,
                   const Scheduler& scheduler, const SchedulerStats& before, TimeUs now) {
  const LiveSequence& first = live_.at(id);
  const std::shared_ptr<const Request> request = first.request;
  if (!added.ok()) {
    ++coverage_.refused;
    CheckRefusal(first, added.status(), before);
    for (int32_t choice = 0; choice < request->num_choices; ++choice) live_.erase(id + choice);
    return;
  }
  if (IsQueueFull(first, before) || !WhyImpossible(first, false).empty()) {
    verdict_.Fail("accepted, and there is no room for it");
  }
  int32_t ahead = 0;
  for (const auto& [other_id, other] : live_) {
    const Sequence* const seen = scheduler.Look(other_id);
    if (other_id >= id || seen == nullptr || seen->is_running) continue;
    ahead += other.request->priority >= request->priority;
  }
  if (added->queue_position != ahead) {
    verdict_.Fail(absl::StrCat("queue position ", added->queue_position, ", not ", ahead));
  }
  if (added->cached_tokens < 0 || added->cached_tokens > first.num_prompt()) {
    verdict_.Fail(absl::StrCat("cached_tokens ", added->cached_tokens));
  }
  for (int32_t choice = 0; choice < request->num_choices; ++choice) {
    live_.at(id + choice).is_added = true;
    live_.at(id + choice).added_at = now;
  }
}

void Ledger::CheckRefusal(const LiveSequence& sequence, const absl::Status& status,
                          const SchedulerStats& before) {
  std::string reason = WhyImpossible(sequence, false);
  if (reason.empty() && absl::StartsWith(status.message(), "REQUEST_EXCEEDS_KV_CAPACITY: ")) {
    reason = WhyImpossible(sequence, true);
  }
  if (reason.empty() && IsQueueFull(sequence, before)) reason = "QUEUE_FULL: ";
  if (reason.empty()) verdict_.Fail(absl::StrCat("refused without need: ", status.ToString()));
  if (!absl::StartsWith(status.message(), reason)) {
    verdict_.Fail(absl::StrCat("refused with ", status.ToString(), " instead of ", reason));
  }
}

void Ledger::EndAsked(SequenceId id, EndReason reason) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  const bool is_first = found->second.choice == 0;
  // A later choice that is not born yet ends with the first one only.
  if (!is_first && found->second.state == SimState::kUnborn) return;
  for (auto& [other_id, other] : live_) {
    const bool comes_out_of_it =
        is_first && other.first_id == id && other.state == SimState::kUnborn;
    if (other_id != id && !comes_out_of_it) continue;
    if (!other.must_end) other.asked_reason = reason;
    other.must_end = true;
  }
}

void Ledger::MayEnd(SequenceId id, EndReason reason) {
  for (auto& [other_id, other] : live_) {
    const bool comes_out_of_it = other.first_id == id && other.state == SimState::kUnborn;
    if (other_id == id || comes_out_of_it) other.may_end |= BitOf(reason);
  }
}

// ---- plans ----

void Ledger::Planned(const StepPlan& plan, TimeUs now) {
  ++expected_.num_checks;
  for (const EndedSequence& end : plan.ended) Ended(end, now);
  for (const PlannedSequence& planned : plan.sequences) PlannedOne(planned, now);
  if (plan.num_tokens == 0) return;
  ++expected_.num_steps;
  expected_.max_seqs_in_step =
      std::max(expected_.max_seqs_in_step, static_cast<int32_t>(plan.sequences.size()));
  coverage_.copies += static_cast<int64_t>(plan.copies.size());
}

void Ledger::PlannedOne(const PlannedSequence& planned, TimeUs now) {
  const auto found = live_.find(planned.id);
  if (found == live_.end() || !found->second.is_added) {
    verdict_.Fail(absl::StrCat("sequence ", planned.id, " is planned and not live"));
    return;
  }
  LiveSequence& sequence = found->second;
  CheckPlanned(planned, sequence);
  const int32_t end = planned.first_position + planned.num_tokens;
  const bool wants_rows = sequence.request->WantsPromptRows() && sequence.choice == 0;
  if (planned.wants_prompt_rows) {
    sequence.num_prompt_rows = end;
  } else if (wants_rows && std::min(end, sequence.num_prompt()) > sequence.num_prompt_rows) {
    verdict_.Fail(absl::StrCat("sequence ", planned.id, ": prompt rows without their logits"));
  }
  const int32_t num_kv_rows = planned.num_written();
  sequence.num_rows += planned.num_tokens;
  sequence.num_kv_rows += num_kv_rows;
  expected_.num_kv_rows += num_kv_rows;
  if (sequence.first_scheduled_at == kNever) {
    const int32_t matched = planned.first_position + (planned.last_row_cached ? 1 : 0);
    // Later choices are scheduled with the first one: the step that computes the prompt is theirs.
    for (int32_t i = 0; i < sequence.request->num_choices; ++i) {
      const auto other = live_.find(sequence.first_id + i);
      if (other == live_.end()) continue;
      other->second.first_scheduled_at = now;
      other->second.cached_tokens = matched;
    }
    expected_.prefix_query_tokens += sequence.num_prompt();
    expected_.prefix_hit_tokens += matched;
    coverage_.hit_tokens += matched;
  }
  coverage_.full_hits += planned.last_row_cached;
  coverage_.draws_of_several += planned.num_draws > 1;
  const int64_t bound =
      int64_t{sequence.num_prompt() + sequence.request->max_tokens} * (config_.max_preemptions + 1);
  if (sequence.num_rows > bound) {
    verdict_.Fail(absl::StrCat("sequence ", planned.id, " computed ", sequence.num_rows,
                               " rows, at most ", bound, " are needed"));
  }
}

void Ledger::CheckPlanned(const PlannedSequence& planned, const LiveSequence& sequence) {
  const auto fail = [&](const std::string& what) {
    verdict_.Fail(absl::StrCat("sequence ", planned.id, " in ", planned.first_position, "+",
                               planned.num_tokens, ": ", what));
  };
  const int32_t end = planned.first_position + planned.num_tokens;
  const int32_t num_prompt = sequence.num_prompt();
  const int32_t num_known = num_prompt + sequence.num_told;
  if (planned.request != sequence.request.get()) fail("somebody else's request");
  for (int32_t p = planned.first_position; p < end; ++p) {
    const int32_t token = planned.token_ids[p - planned.first_position];
    const int32_t right = p < num_known ? sequence.truth.tokens[p] : -1 - planned.seq_slot;
    if (token != right) fail(absl::StrCat("token ", token, " at ", p, ", not ", right));
  }
  const int32_t next = end < num_prompt ? sequence.truth.tokens[end] : -1;
  if (planned.next_token_id != next) fail(absl::StrCat("next_token_id ", planned.next_token_id));
  if (planned.num_draws > 0) {
    // Choices are drawn from the prompt's last row only, each once.
    const bool from_prompt = end == num_prompt && sequence.num_told == 0;
    const int32_t draws = from_prompt && sequence.choice == 0 ? sequence.request->num_choices : 1;
    if (planned.num_draws != draws) fail(absl::StrCat(planned.num_draws, " draws, not ", draws));
    if (planned.first_choice != sequence.choice) fail("another choice");
    if (end < num_known) fail("draws a token that is there");
  } else if (end >= num_known && sequence.request->max_tokens > 0) {
    fail("the last row draws nothing");
  }
  if (planned.wants_prompt_rows &&
      (!sequence.request->WantsPromptRows() || planned.first_position != sequence.num_prompt_rows ||
       end > num_prompt)) {
    fail("prompt rows that nobody wants, or not in order");
  }
}

void Ledger::Executed(const std::vector<ExecutedSequence>& executed,
                      const std::set<SequenceId>& broken) {
  for (const ExecutedSequence& part : executed) {
    const auto found = live_.find(part.id);
    if (found == live_.end() || broken.contains(part.id)) continue;
    const int32_t end = part.first_position + part.num_tokens;
    const std::vector<uint64_t>& digests = found->second.truth.digests;
    if (end > static_cast<int32_t>(digests.size())) {
      verdict_.Fail(absl::StrCat("sequence ", part.id, ": a row past its end"));
    } else if (part.first_digest != digests[part.first_position] ||
               part.last_digest != digests[end - 1]) {
      verdict_.Fail(absl::StrCat("sequence ", part.id, ": rows ", part.first_position, " to ",
                                 end - 1, " see KV that is not that of their own tokens"));
    }
  }
}

// ---- what clients hear ----

void Ledger::Committed(const CommitResult& committed, TimeUs now) {
  ++expected_.num_checks;
  for (const NewToken& token : committed.tokens) Told(token);
  for (const EndedSequence& end : committed.ended) Ended(end, now);
}

void Ledger::Told(const NewToken& token) {
  const auto found = live_.find(token.id);
  if (found == live_.end()) {
    verdict_.Fail(absl::StrCat("a token for sequence ", token.id, ", which has ended"));
    return;
  }
  LiveSequence& sequence = found->second;
  if (token.choice != sequence.choice || token.index != sequence.num_told ||
      token.index >= sequence.natural_tokens) {
    verdict_.Fail(absl::StrCat("sequence ", token.id, ": token ", token.index, " of choice ",
                               token.choice, " after ", sequence.num_told));
    return;
  }
  const int32_t right = sequence.truth.tokens[sequence.num_prompt() + token.index];
  if (token.token_id != right) {
    verdict_.Fail(absl::StrCat("sequence ", token.id, ": token ", token.index, " is ",
                               token.token_id, ", alone it gets ", right));
  }
  ++sequence.num_told;
}

void Ledger::Ended(const EndedSequence& end, TimeUs now) {
  const auto found = live_.find(end.id);
  if (found == live_.end() || !found->second.is_added) {
    verdict_.Fail(absl::StrCat("sequence ", end.id, " ends and is not live"));
    return;
  }
  const LiveSequence& sequence = found->second;
  CheckEndReason(end, sequence, now);
  CheckUsage(end, sequence);
  ++coverage_.ends[static_cast<size_t>(end.reason)];
  if (end.reason == EndReason::kStop) coverage_.Count(sequence.state, SimEvent::kStop);
  if (end.reason == EndReason::kLength) coverage_.Count(sequence.state, SimEvent::kLength);
  const auto& tokens = sequence.truth.tokens;
  transcripts_.emplace_back(tokens.begin(),
                            tokens.begin() + end.prompt_tokens + end.completion_tokens);
  live_.erase(found);
}

void Ledger::CheckEndReason(const EndedSequence& end, const LiveSequence& sequence, TimeUs now) {
  const Request& request = *sequence.request;
  bool is_right = false;
  switch (end.reason) {
    case EndReason::kStop:
    case EndReason::kLength:
      is_right = sequence.natural_end == end.reason && sequence.num_told == sequence.natural_tokens;
      break;
    case EndReason::kDeadline:
      is_right = now >= request.deadline;
      break;
    case EndReason::kTimeLimit:
      is_right = now >= request.time_limit && now < request.deadline;
      break;
    case EndReason::kQueueTimeout:
      is_right = now >= request.queue_deadline && sequence.first_scheduled_at == kNever;
      break;
    default:
      is_right = (sequence.may_end & BitOf(end.reason)) != 0;
  }
  if (sequence.must_end) is_right = end.reason == sequence.asked_reason;
  const bool is_stop = end.reason == EndReason::kStop;
  const int32_t stop_token =
      is_stop ? sequence.truth.tokens[sequence.num_prompt() + sequence.natural_tokens - 1] : -1;
  if (!is_right || end.stop_token_id != stop_token) {
    verdict_.Fail(absl::StrCat("sequence ", end.id, " ends with ", EndReasonName(end.reason),
                               " after ", sequence.num_told, " tokens, stop token ",
                               end.stop_token_id));
  }
}

void Ledger::CheckUsage(const EndedSequence& end, const LiveSequence& sequence) {
  const int32_t num_prompt = sequence.num_prompt();
  // Later choices end with the first one's numbers as long as they have not come out of it, and
  // have no cached tokens of their own then.
  const bool is_unborn = sequence.state == SimState::kUnborn && sequence.num_told == 0 &&
                         end.reason != EndReason::kNoTokenAllowed;
  const int32_t cached = sequence.choice == 0 || is_unborn ? sequence.cached_tokens : 0;
  const bool is_right = end.id == sequence.first_id + end.choice && end.choice == sequence.choice &&
                        end.prompt_tokens == num_prompt &&
                        end.completion_tokens == sequence.num_told && end.cached_tokens == cached &&
                        end.added_at == sequence.added_at &&
                        end.first_scheduled_at == sequence.first_scheduled_at &&
                        (is_unborn || end.num_preemptions == sequence.num_preemptions);
  if (!is_right) {
    verdict_.Fail(absl::StrCat("sequence ", end.id, " ends with wrong usage: choice ", end.choice,
                               " prompt ", end.prompt_tokens, " completion ", end.completion_tokens,
                               " cached ", end.cached_tokens, " preemptions ", end.num_preemptions,
                               " added ", end.added_at, " scheduled ", end.first_scheduled_at));
  }
  const bool is_whole = end.reason == EndReason::kLength || end.reason == EndReason::kStop;
  if (!is_whole || end.choice != 0) return;
  if (sequence.request->WantsPromptRows() && sequence.num_prompt_rows != num_prompt) {
    verdict_.Fail(absl::StrCat("sequence ", end.id, ": not all prompt rows had logits"));
  }
  // Run-ahead may have computed the row of a stop token, and one behind a length.
  const int64_t rows = num_prompt + std::max(0, end.completion_tokens - 1);
  const int64_t computed = sequence.num_kv_rows + sequence.cached_tokens;
  const int32_t ahead = end.reason == EndReason::kStop ? config_.max_steps_in_flight : 0;
  if (sequence.num_preemptions == 0 && (computed < rows || computed > rows + ahead)) {
    verdict_.Fail(absl::StrCat("sequence ", end.id, " computed ", computed, " rows, not ", rows));
  }
}

std::vector<int32_t> Ledger::TakeTranscript() {
  if (transcripts_.empty()) return {};
  std::vector<int32_t> transcript = std::move(transcripts_.back());
  transcripts_.pop_back();
  return transcript;
}

}  // namespace quire
