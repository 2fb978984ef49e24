// What SchedulerWorld is told, and what must hold after every act and at the end.
#include <algorithm>

#include "tests/sim/scheduler_world.h"

namespace quire {

void SchedulerWorld::Told(const CommitResult& result) {
  for (const NewToken& token : result.tokens) {
    const auto found = choices_.find(token.id);
    SIM_REQUIRE(found != choices_.end(), "a token for ", token.id, ", which has ended");
    Choice& choice = found->second;
    SIM_REQUIRE_EQ(token.id, choice.first_id + token.choice);
    SIM_REQUIRE_EQ(token.index, choice.num_told, "tokens of ", token.id);
    ++choice.num_told;
    SIM_REQUIRE(choice.num_told <= choice.request->max_tokens, "tokens of ", token.id);
    const size_t position = choice.request->prompt_token_ids.size() + token.index;
    SIM_REQUIRE_EQ(token.token_id, choice.tokens[position], "token ", token.index, " of ",
                   token.id);
  }
  Told(result.ended);
}

void SchedulerWorld::Told(const std::vector<EndedSequence>& ended) {
  for (const EndedSequence& end : ended) {
    const auto found = choices_.find(end.id);
    SIM_REQUIRE(found != choices_.end(), "sequence ", end.id, " ends twice");
    const Choice& choice = found->second;
    SIM_REQUIRE(MayEnd(choice, end.reason), "sequence ", end.id, ": ", EndReasonName(end.reason));
    CheckEnd(end, choice);
    ++totals.num_ended[static_cast<int>(end.reason)];
    const bool is_natural = end.reason == EndReason::kStop || end.reason == EndReason::kLength;
    num_complete_ += is_natural && IsOver(choice);
    const auto prompt = static_cast<int64_t>(choice.request->prompt_token_ids.size());
    const auto begin = choice.tokens.begin();
    if (prompt + choice.num_told < 20) {
      histories_.emplace_back(begin, begin + prompt + choice.num_told);
    }
    choices_.erase(found);
  }
}

// It has all that it can get.
bool SchedulerWorld::IsOver(const Choice& choice) const {
  const Request& request = *choice.request;
  if (request.max_tokens == 0) return choice.first_planned_at != kNever;
  if (choice.num_told == 0) return false;
  const auto last = static_cast<int64_t>(request.prompt_token_ids.size()) + choice.num_told - 1;
  const auto& stops = request.stop_token_ids;
  return choice.num_told == request.max_tokens ||
         std::find(stops.begin(), stops.end(), choice.tokens[last]) != stops.end();
}

bool SchedulerWorld::IsDue(const Choice& choice) const {
  const Request& request = *choice.request;
  return now_ >= std::min(request.deadline, request.time_limit) ||
         (now_ >= request.queue_deadline && choice.first_planned_at == kNever);
}

bool SchedulerWorld::MayEnd(const Choice& choice, EndReason reason) const {
  const Request& request = *choice.request;
  if (choice.may_end.contains(reason)) return true;
  switch (reason) {
    case EndReason::kStop:
      return IsOver(choice) && !request.stop_token_ids.empty();
    case EndReason::kLength:
      return IsOver(choice) && choice.num_told == request.max_tokens;
    case EndReason::kDeadline:
      return now_ >= request.deadline;
    case EndReason::kTimeLimit:
      return now_ >= request.time_limit;
    case EndReason::kQueueTimeout:
      return now_ >= request.queue_deadline && choice.first_planned_at == kNever;
    default:
      return false;
  }
}

void SchedulerWorld::CheckEnd(const EndedSequence& end, const Choice& choice) const {
  const Request& request = *choice.request;
  const auto num_prompt = static_cast<int32_t>(request.prompt_token_ids.size());
  SIM_REQUIRE_EQ(end.id, choice.first_id + end.choice);
  SIM_REQUIRE_EQ(end.prompt_tokens, num_prompt);
  SIM_REQUIRE_EQ(end.completion_tokens, choice.num_told, "of ", end.id);
  SIM_REQUIRE_EQ(end.added_at, choice.added_at, "of ", end.id);
  SIM_REQUIRE_EQ(end.first_scheduled_at, choice.first_planned_at, "of ", end.id);
  SIM_REQUIRE(end.cached_tokens >= 0 && end.cached_tokens <= num_prompt);
  SIM_REQUIRE(config_.prefix_caching || end.cached_tokens == 0);
  const bool reserves = config_.admission == AdmissionMode::kReserve;
  SIM_REQUIRE(end.num_preemptions <= (reserves ? 0 : config_.max_preemptions), "of ", end.id);
  if (end.reason == EndReason::kStop && !choice.may_end.contains(EndReason::kStop)) {
    SIM_REQUIRE_EQ(end.stop_token_id, choice.tokens[num_prompt + choice.num_told - 1]);
  }
  if (end.reason != EndReason::kLength || end.choice != 0) return;
  SIM_REQUIRE_EQ(choice.num_prompt_rows, request.WantsPromptRows() ? num_prompt : 0, "of ", end.id);
  // Whatever was not found in the cache was computed, once.
  if (end.num_preemptions > 0) return;
  SIM_REQUIRE_EQ(choice.num_kv_rows + end.cached_tokens,
                 num_prompt + std::max(0, request.max_tokens - 1), "of ", end.id);
}

void SchedulerWorld::CheckDueAreGone() const {
  for (const auto& [id, choice] : choices_) {
    SIM_REQUIRE(!choice.must_end, "sequence ", id, " lives on");
    SIM_REQUIRE(!IsDue(choice), "sequence ", id, " lives on");
    SIM_REQUIRE(choice.num_told == 0 || !IsOver(choice), "sequence ", id, " lives on");
  }
}

void SchedulerWorld::Check() const {
  scheduler_.CheckInvariants();
  SIM_REQUIRE_EQ(scheduler_.NumLeakedBlocks(), 0);
  SIM_REQUIRE_EQ(scheduler_.HasWork(), !choices_.empty() || !in_flight_.empty());
  const BlockPool& pool = scheduler_.pool();
  for (const auto& [step, named] : named_) {
    for (const Named& name : named) {
      SIM_REQUIRE_EQ(pool.generation(name.block), name.generation, "block ", name.block,
                     " is handed out while step ", step, " names it");
      SIM_REQUIRE(!pool.is_idle(name.block), "block ", name.block, ", step ", step);
    }
  }
  const SchedulerStats stats = scheduler_.Stats();
  int32_t num_born = 0;
  for (const auto& [id, choice] : choices_) num_born += IsBorn(id);
  SIM_REQUIRE_EQ(stats.num_running + stats.num_waiting, num_born);
  SIM_REQUIRE(stats.num_running <= config_.max_num_seqs);
  SIM_REQUIRE_EQ(stats.blocks_held, pool.num_held());
}

void SchedulerWorld::ServeAll() {
  for (int32_t turn = 0; scheduler_.HasWork(); ++turn) {
    SIM_REQUIRE(turn < 10'000, "it never ends: ", scheduler_.Dump());
    if (num_in_flight() < config_.max_steps_in_flight && turn % 3 != 2) {
      PlanStep();
    } else {
      CommitStep(Fault::kNone, 0);
    }
    Check();
  }
}

// The longest request that is accepted at all gets its blocks.
void SchedulerWorld::FillThePool() {
  const int32_t num_complete = num_complete_;
  auto request = std::make_shared<Request>();
  request->max_tokens = 1;
  request->prompt_token_ids.assign(64, 2);
  while (!AddRequest(std::make_shared<Request>(*request))) request->prompt_token_ids.pop_back();
  ServeAll();
  SIM_REQUIRE_EQ(num_complete_, num_complete + 1);
}

void SchedulerWorld::Finish() {
  TouchUpTo(config_.num_blocks);
  ServeAll();
  SIM_REQUIRE(choices_.empty());
  const BlockPool& pool = scheduler_.pool();
  SIM_REQUIRE_EQ(pool.num_free() + pool.num_idle(), config_.num_blocks);
  SIM_REQUIRE(config_.prefix_caching || pool.num_idle() == 0);
  SIM_REQUIRE_EQ(scheduler_.Stats().queued_prefill_tokens, 0);
  FillThePool();
}

}  // namespace quire
