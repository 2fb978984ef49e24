#include "tests/sim/world.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

constexpr TimeUs kIdleWait = 500'000;  // as the engine's
constexpr int32_t kNumRequests = 40;
constexpr int64_t kMostTurns = 200'000;

}  // namespace

World::World(const SimScenario& scenario, Coverage* coverage)
    : scenario_(scenario), coverage_(*coverage), random_(scenario.seed) {
  ChooseConfig();
  ShapeConfigForTarget();
  Print([&] { return DescribeConfig(); });
  static const std::vector<TraceRequest> kNoTrace;
  scheduler_ = std::make_unique<Scheduler>(config_);
  device_ = std::make_unique<ShadowKv>(config_, vocab_size_, writes_land_early_);
  ledger_ = std::make_unique<Ledger>(config_, vocab_size_, &verdict_, coverage);
  rules_ = std::make_unique<PlanRules>(config_, &verdict_, coverage);
  workload_ =
      std::make_unique<Workload>(config_, vocab_size_, kNumRequests, NeedsPreemption(),
                                 scenario.trace != nullptr ? *scenario.trace : kNoTrace, &random_);
  inbox_ = std::make_unique<Inbox>(num_inbox_places_);
}

// ---- time ----

void World::Schedule(TimeUs at, What what, SequenceId id, EndReason reason) {
  events_.push({at, next_order_++, what, id, reason});
}

std::string World::Play() {
  Arrive();
  if (touched_ >= 0) {
    scheduler_->SetTouchedBlocks(touched_);
    Schedule(now_ + random_.Pick(1, 2'000), What::kTouch);
  }
  while (verdict_.ok() && !events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = std::max(now_, event.at);
    Happen(event);
    EngineTurn();
    if (++num_turns_ > kMostTurns) verdict_.Fail("it does not come to an end");
  }
  if (verdict_.ok() && (scheduler_->HasWork() || !ledger_->live().empty() || !in_flight_.empty())) {
    verdict_.Fail(absl::StrCat("it hangs: ", scheduler_->Dump()));
  }
  if (verdict_.ok() && random_.Chance(20)) FillPool();
  const BlockPool& pool = scheduler_->pool();
  const int32_t num_untouched = config_.num_blocks - pool.num_touched();
  if (verdict_.ok() && pool.num_free() + pool.num_idle() + num_untouched != config_.num_blocks) {
    verdict_.Fail(absl::StrCat("blocks leak: ", scheduler_->Dump()));
  }
  ++coverage_.scenarios;
  coverage_.virtual_us += now_;
  return verdict_.failure();
}

void World::Happen(const Event& event) {
  switch (event.what) {
    case What::kArrival:
      Submit(*next_arrival_);
      Arrive();
      break;
    case What::kClientGoes:
      inbox_->Put(Ending{event.id, event.reason});
      break;
    case What::kTouch:
      TouchMore();
      break;
    case What::kSecondSignal:
      SecondSignal();
      break;
    case What::kWake:
      wake_is_scheduled_ = false;
      break;
    case What::kStepDone:
      break;  // the engine looks for itself
  }
}

void World::TouchMore() {
  if (touched_ >= config_.num_blocks) return;
  if (now_ >= touching_stalls_until_) {
    touched_ = std::min(config_.num_blocks, touched_ + random_.Pick(1, 5));
    scheduler_->SetTouchedBlocks(touched_);
  }
  Schedule(now_ + random_.Pick(1, 5'000), What::kTouch);
}

// ---- clients ----

void World::Arrive() {
  next_arrival_.reset();
  if (workload_->is_over() || is_draining_) return;
  next_arrival_ = workload_->Next(now_, ledger_->TakeTranscript());
  Schedule(next_arrival_->at, What::kArrival);
}

void World::Submit(const SimArrival& arrival) {
  if (is_draining_) return;
  const SequenceId id = next_id_;
  next_id_ += arrival.request->num_choices;
  GiveLimit(arrival.request.get());
  if (!inbox_->Put(Submission{.id = id, .request = arrival.request})) {
    if (num_in_inbox_ < num_inbox_places_) verdict_.Fail("the inbox is full too early");
    return;
  }
  if (++num_in_inbox_ > num_inbox_places_) verdict_.Fail("the inbox holds too much");
  ledger_->Submitted(id, arrival.request);
  if (arrival.goes_away_after == kNever) return;
  const SequenceId leaving = id + random_.Pick(0, arrival.request->num_choices - 1);
  Schedule(arrival.at + arrival.goes_away_after, What::kClientGoes, leaving, arrival.goes_away_as);
}

// ---- the engine loop ----

// What the engine does until it has to wait for a step, or for something to do.
void World::EngineTurn() {
  while (verdict_.ok()) {
    if (!in_flight_.empty() && in_flight_.front().done_at <= now_) {
      if (random_.Chance(30)) TakeInbox();
      CommitStep();
      continue;
    }
    const bool may_plan = static_cast<int32_t>(in_flight_.size()) < config_.max_steps_in_flight;
    if (!may_plan || (!in_flight_.empty() && random_.Chance(15))) return;
    TakeInbox();
    if (!PlanStep()) break;
  }
  if (scheduler_->HasWork() && in_flight_.empty() && !wake_is_scheduled_) {
    wake_is_scheduled_ = true;
    Schedule(now_ + kIdleWait, What::kWake);
  }
}

void World::TakeInbox() {
  inbox_->Take(absl::ZeroDuration(), &taken_);
  num_in_inbox_ = 0;
  for (Submission& submission : taken_.submissions) {
    const SchedulerStats before = scheduler_->Stats();
    const absl::StatusOr<AddResult> added =
        scheduler_->Add(submission.id, submission.request, now_);
    ledger_->Added(submission.id, added, *scheduler_, before, now_);
    Print([&] {
      return absl::StrCat("add ", submission.id, " prompt ",
                          submission.request->prompt_token_ids.size(), " max_tokens ",
                          submission.request->max_tokens, " n ", submission.request->num_choices,
                          " priority ", submission.request->priority, " ",
                          added.ok() ? "" : added.status().ToString());
    });
  }
  for (const Ending& ending : taken_.endings) EndNow(ending.id, ending.reason);
  if (taken_.end_queued) {
    std::vector<SequenceId> queued;
    for (const auto& [id, live] : ledger_->live()) {
      if (live.first_scheduled_at == kNever) queued.push_back(id);
    }
    for (const SequenceId id : queued) EndNow(id, EndReason::kDraining);
  }
  Provoke();
}

void World::EndNow(SequenceId id, EndReason reason) {
  Print([&] { return absl::StrCat("end ", id, " ", EndReasonName(reason)); });
  scheduler_->End(id, reason);
  ledger_->EndAsked(id, reason);
}

// False: there was nothing to run.
bool World::PlanStep() {
  rules_->Before(*scheduler_, *ledger_);
  const int64_t preemptions_before = scheduler_->Stats().num_preemptions;
  const StepPlan& plan = scheduler_->Plan(now_);
  Print([&] { return absl::StrCat("plan ", plan.step_id, ": ", plan.Describe()); });
  ledger_->Planned(plan, now_);
  CheckState();
  if (verdict_.ok()) rules_->After(*scheduler_, plan, ledger_.get());
  if (plan.num_tokens == 0 || !verdict_.ok()) return false;
  if (const std::string wrong = device_->Launch(plan); !wrong.empty()) verdict_.Fail(wrong);

  bool is_eventful = scheduler_->Stats().num_preemptions > preemptions_before;
  FlyingStep& step = in_flight_.emplace_back();
  step.id = plan.step_id;
  for (const PlannedSequence& planned : plan.sequences) {
    step.parts.push_back({planned.id, planned.num_draws > 0});
    for (const auto& table : planned.block_tables) {
      for (const BlockId block : table) {
        is_eventful |= block != kNoBlock && scheduler_->pool().num_holders(block) > 1;
      }
    }
  }
  const TimeUs begin = in_flight_.size() > 1 ? in_flight_[in_flight_.size() - 2].done_at : now_;
  step.done_at = std::max(begin, now_) + DurationOf(plan);
  Schedule(step.done_at, What::kStepDone);
  ++coverage_.steps;
  coverage_.eventful_steps += is_eventful;
  Provoke();
  return true;
}

TimeUs World::DurationOf(const StepPlan& plan) {
  const double us = config_.us_per_step + plan.num_tokens * config_.us_per_row;
  return 1 + static_cast<TimeUs>(us) + random_.Pick(0, 2'000);
}

void World::CommitStep() {
  const FlyingStep step = std::move(in_flight_.front());
  in_flight_.pop_front();
  std::vector<ExecutedSequence> executed;
  if (const std::string wrong = device_->Retire(step.broken, step.fails, &executed);
      !wrong.empty()) {
    verdict_.Fail(wrong);
  }
  if (!step.fails) ledger_->Executed(executed, step.broken);
  for (const FlyingPart& part : step.parts) {
    if (step.fails) ledger_->MayEnd(part.id, EndReason::kEngineFailed);
  }
  coverage_.failed_steps += step.fails;
  coverage_.eventful_steps += step.fails || !step.broken.empty() || !step.without_token.empty();
  CommitResult committed;
  if (step.fails) {
    committed = scheduler_->CommitFailed(step.id, now_);
    if (!committed.tokens.empty()) verdict_.Fail("a step that failed has tokens");
  } else {
    committed = scheduler_->Commit(step.id, ResultsOf(step, executed), now_);
  }
  Print([&] {
    return absl::StrCat("commit ", step.id, step.fails ? " failed" : "", ": ",
                        DescribeEnded(committed.ended));
  });
  ledger_->Committed(committed, now_);
  for (const FlyingPart& part : step.parts) {
    if ((step.fails || step.broken.contains(part.id)) && ledger_->live().contains(part.id)) {
      verdict_.Fail(absl::StrCat("sequence ", part.id, " outlives its fault"));
    }
  }
  CheckState();
  Provoke();
}

std::vector<SequenceResult> World::ResultsOf(const FlyingStep& step,
                                             const std::vector<ExecutedSequence>& executed) {
  std::vector<SequenceResult> results(executed.size());
  drawn_.clear();
  for (const ExecutedSequence& part : executed) drawn_.push_back(part.drawn);
  for (size_t i = 0; i < results.size(); ++i) {
    const SequenceId id = executed[i].id;
    if (step.broken.contains(id)) {
      results[i].finite = false;
      ledger_->MayEnd(id, EndReason::kNumericalFault);
    }
    if (step.without_token.contains(id)) {
      std::fill(drawn_[i].begin(), drawn_[i].end(), -1);
      ledger_->MayEnd(id, EndReason::kNoTokenAllowed);
    }
    results[i].token_ids = drawn_[i];
  }
  return results;
}

void World::CheckState() {
  // It costs as much as the rest; what it would find does not go away.
  if (random_.Chance(25)) scheduler_->CheckInvariants();
  ledger_->Observe(*scheduler_, now_);
  rules_->CheckCached(scheduler_->pool());
  device_->PoisonFreeBlocks(scheduler_->pool());
}

// When nothing is left, one request can have the whole pool: no block is lost.
void World::FillPool() {
  const bool is_uniform = config_.group_windows.size() == 1 && config_.group_windows[0] == 0;
  if (!is_uniform || config_.max_model_len > 0 || touched_ >= 0) return;
  auto request = std::make_shared<Request>();
  request->prompt_token_ids.assign(config_.num_blocks * config_.block_size, 3);
  request->cache_salt = "fills the pool";
  request->max_tokens = 1;
  ledger_->Submitted(next_id_, request);
  const SchedulerStats before = scheduler_->Stats();
  ledger_->Added(next_id_, scheduler_->Add(next_id_, request, now_), *scheduler_, before, now_);
  per_mille_ = {};
  num_provoked_ = 1 << 20;
  int32_t most_held = 0;
  while (verdict_.ok() && scheduler_->HasWork()) {
    if (!PlanStep()) verdict_.Fail("it cannot have the whole pool");
    most_held = std::max(most_held, scheduler_->pool().num_held());
    if (verdict_.ok()) CommitStep();
  }
  if (verdict_.ok() && most_held != config_.num_blocks) verdict_.Fail("it did without some blocks");
}

}  // namespace quire
