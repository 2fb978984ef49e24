#include "tests/sim/scheduler_world.h"

#include <algorithm>
#include <string>

namespace quire {
namespace {

constexpr EndReason kEndReasons[] = {EndReason::kCancelled, EndReason::kAborted, EndReason::kStop,
                                     EndReason::kSlowConsumer, EndReason::kDraining};

int32_t NumPrompt(const Request& request) {
  return static_cast<int32_t>(request.prompt_token_ids.size());
}

}  // namespace

SchedulerConfig SchedulerWorld::ConfigOf(int32_t variant) {
  const auto digit = [&variant](int32_t base) {
    const int32_t value = variant % base;
    variant /= base;
    return value;
  };
  static const std::vector<std::vector<int32_t>> windows = {{0}, {0, 5}, {4}, {0, 0, 3}, {3, 7}};
  SchedulerConfig config;
  config.max_steps_in_flight = 1 + digit(3);
  config.group_windows = windows[digit(5)];
  config.prefix_caching = digit(2) == 0;
  constexpr int32_t kPreemptions[] = {3, 1, 0, 0};
  const int32_t admission = digit(4);
  config.max_preemptions = kPreemptions[admission];
  config.admission = admission == 3 ? AdmissionMode::kReserve : AdmissionMode::kOptimistic;
  config.block_size = digit(2) == 0 ? 2 : 3;
  const int32_t blocks_per_group = digit(2) == 0 ? 8 : 16;
  config.num_blocks = blocks_per_group * static_cast<int32_t>(config.group_windows.size());
  config.prefix_hash_bits = digit(2) == 0 ? 64 : 1;
  config.block_shuffle_seed = digit(2) == 0 ? 0 : 11;
  const bool is_tight = digit(2) == 1;
  config.max_num_seqs = is_tight ? 2 : 4;
  config.max_num_batched_tokens = is_tight ? 4 : 16;
  config.max_logit_rows = is_tight ? 2 : 6;
  config.max_queued_requests = 8;
  config.max_overtakes = is_tight ? 1 : 4;
  config.us_per_step = is_tight ? 50'000 : 0;
  config.us_per_row = is_tight ? 20'000 : 0;
  return config;
}

const std::vector<ActKind<SchedulerWorld>>& SchedulerWorld::Kinds() {
  static const std::vector<ActKind<SchedulerWorld>> kinds = {
      {"Add", 10, &SchedulerWorld::Add},
      {"Plan", 24, &SchedulerWorld::Plan},
      {"Commit", 20, &SchedulerWorld::Commit},
      {"LoseStep", 1, &SchedulerWorld::LoseStep},
      {"NotFinite", 1, &SchedulerWorld::NotFinite},
      {"NoToken", 1, &SchedulerWorld::NoToken},
      {"End", 3, &SchedulerWorld::End},
      {"Advance", 4, &SchedulerWorld::Advance},
      {"Touch", 4, &SchedulerWorld::Touch},
  };
  return kinds;
}

SchedulerWorld::SchedulerWorld(const SchedulerConfig& config)
    : config_(config),
      scheduler_(config),
      // Either may be: half of the configurations have the one, half the other.
      device_(config, kVocabSize, /*writes_land_early=*/config.block_shuffle_seed != 0) {}

SchedulerWorld::~SchedulerWorld() {
  totals.num_preemptions += num_preemptions();
  totals.num_hit_tokens += num_hit_tokens();
  totals.num_copies += num_copies();
}

SchedulerWorld::Totals SchedulerWorld::totals;

// ---- what happens ----

void SchedulerWorld::Add(const Act& act) { AddRequest(RequestOf(act)); }

// Few prompts and many beginnings of them, so that much is shared.
std::shared_ptr<Request> SchedulerWorld::RequestOf(const Act& act) const {
  auto request = std::make_shared<Request>();
  std::vector<int32_t>& prompt = request->prompt_token_ids;
  if (act.c / 16 % 4 == 3 && !histories_.empty()) prompt = PickFrom(histories_, act.a / 64);
  const int32_t length = 1 + act.a / 4 % (4 * config_.block_size);
  for (int32_t i = 0; i < length; ++i) prompt.push_back(i * (act.a % 4) / 2 % 3);
  request->max_tokens = 1 + act.b % 8 + act.c / 512 % 2 * 8;
  constexpr int32_t kChoices[] = {1, 1, 1, 1, 1, 2, 3, 4};
  request->num_choices = kChoices[act.b / 8 % 8];
  request->sampling.seed = act.b / 64 % 2;
  const TimeUs later = now_ + act.c / 64 % 1000;
  switch (act.c % 16) {
    case 6:
      request->stop_token_ids = {5, 7};
      break;
    case 7:
      request->priority = act.c / 64 % 5 - 2;
      break;
    case 8:
      request->cache_salt = "other";
      break;
    case 9:
      request->logits = LogitsWanted::kGenerated;
      break;
    case 10:
      request->logits = LogitsWanted::kPromptAndGenerated;
      break;
    case 11:
      request->num_prompt_logprobs = 0;
      break;
    case 12:
      request->deadline = later;
      break;
    case 13:
      request->time_limit = later;
      break;
    case 14:
      request->queue_deadline = later;
      break;
    case 15:
      request->max_tokens = 0;
      break;
    default:
      break;
  }
  return request;
}

bool SchedulerWorld::AddRequest(const std::shared_ptr<const Request>& request) {
  const SequenceId id = next_id_;
  next_id_ += request->num_choices;
  const int32_t num_waiting = scheduler_.Stats().num_waiting;
  const absl::StatusOr<AddResult> added = scheduler_.Add(id, request, now_);
  const bool is_full = num_waiting >= config_.max_queued_requests;
  SIM_REQUIRE_EQ(added.status().code() == absl::StatusCode::kResourceExhausted,
                 is_full && added.status().code() != absl::StatusCode::kInvalidArgument);
  // Where all is kept, a request fits if its blocks are no more than there are.
  const int32_t positions = NumPrompt(*request) + std::max(0, request->max_tokens - 1);
  const int32_t num_blocks = (positions + config_.block_size - 1) / config_.block_size *
                             static_cast<int32_t>(config_.group_windows.size());
  const bool keeps_all = config_.group_windows == std::vector<int32_t>{0};
  const bool is_refused = added.status().code() == absl::StatusCode::kInvalidArgument;
  SIM_REQUIRE(num_blocks > config_.num_blocks || !is_refused, added.status().message());
  SIM_REQUIRE(num_blocks <= config_.num_blocks || !keeps_all || is_refused);
  if (!added.ok()) return false;
  for (int32_t i = 0; i < request->num_choices; ++i) {
    Choice& choice = choices_[id + i];
    choice.request = request;
    choice.first_id = id;
    choice.tokens = ShadowTruth(*request, i, config_.group_windows, kVocabSize).tokens;
    choice.added_at = now_;
  }
  return true;
}

void SchedulerWorld::End(const Act& act) {
  if (next_id_ == 1) return;
  EndOne(1 + static_cast<SequenceId>(act.a) % (next_id_ - 1), PickFrom(kEndReasons, act.b));
}

void SchedulerWorld::EndOne(SequenceId id, EndReason reason) {
  scheduler_.End(id, reason);
  if (IsBorn(id)) MustEnd(id, reason);
}

void SchedulerWorld::MustEnd(SequenceId id, EndReason reason) {
  for (auto& [other_id, other] : choices_) {
    if (other_id != id && (other.first_id != id || IsBorn(other_id))) continue;
    other.must_end = true;
    other.may_end.insert(reason);
  }
}

void SchedulerWorld::TouchUpTo(int32_t n) {
  touched_ = std::min(n, config_.num_blocks);
  scheduler_.SetTouchedBlocks(touched_);
}

// ---- steps ----

void SchedulerWorld::PlanStep() {
  if (num_in_flight() >= config_.max_steps_in_flight) return;
  const StepPlan& plan = scheduler_.Plan(now_);
  Told(plan.ended);
  CheckDueAreGone();
  for (const PlannedSequence& planned : plan.sequences) CheckPlanned(planned);
  CheckWrites(plan);
  CheckReservedAreServed(plan);
  for (const auto& [id, choice] : choices_) {
    totals.num_waits += IsBorn(id) && !scheduler_.Look(id)->waiting_on.is_none();
  }
  num_copies_ += static_cast<int64_t>(plan.copies.size());
  if (plan.num_tokens == 0) return;
  NameBlocks(plan);
  SIM_REQUIRE_EQ(device_.Launch(plan), "");
  FlyingStep& step = in_flight_.emplace_back();
  step.id = plan.step_id;
  for (const PlannedSequence& planned : plan.sequences) {
    step.parts.push_back({planned.id, planned.num_draws});
  }
}

void SchedulerWorld::CheckPlanned(const PlannedSequence& planned) {
  const auto found = choices_.find(planned.id);
  SIM_REQUIRE(found != choices_.end(), "sequence ", planned.id, " has ended");
  Choice& choice = found->second;
  const Request& request = *choice.request;
  totals.num_full_hits += planned.last_row_cached;
  choice.num_rows += planned.num_tokens;
  choice.num_kv_rows += planned.num_written();
  SIM_REQUIRE(choice.num_rows <=
                  int64_t{NumPrompt(request) + request.max_tokens} * (config_.max_preemptions + 1),
              choice.num_rows, " rows of sequence ", planned.id);
  if (planned.wants_prompt_rows) {  // in order, each once
    SIM_REQUIRE(request.WantsPromptRows());
    SIM_REQUIRE_EQ(planned.first_position, choice.num_prompt_rows);
    choice.num_prompt_rows += planned.num_tokens;
  }
  // The slot is its own for as long as it runs.
  const int32_t num_preemptions = scheduler_.Look(planned.id)->num_preemptions;
  SIM_REQUIRE(choice.seq_slot == planned.seq_slot || choice.seq_slot < 0 ||
              choice.num_preemptions < num_preemptions);
  choice.seq_slot = planned.seq_slot;
  choice.num_preemptions = num_preemptions;
  for (auto& [id, other] : choices_) {
    const bool is_of_it = id == planned.id || (other.first_id == planned.id && !IsBorn(id));
    if (is_of_it) other.first_planned_at = std::min(other.first_planned_at, now_);
  }
}

// What a step writes, nobody else has, and nobody finds.
void SchedulerWorld::CheckWrites(const StepPlan& plan) const {
  const BlockPool& pool = scheduler_.pool();
  const auto check = [&](BlockId block) {
    SIM_REQUIRE_EQ(pool.num_holders(block), 1, "block ", block, " is written");
    SIM_REQUIRE(!pool.is_cached(block), "block ", block, " is written");
  };
  for (const BlockCopyPlan& copy : plan.copies) check(copy.target);
  for (const PlannedSequence& planned : plan.sequences) {
    for (int32_t row = 0; row < planned.num_written(); ++row) {
      const size_t i = (planned.first_position + row) / config_.block_size;
      for (const std::vector<int32_t>& table : planned.block_tables) {
        SIM_REQUIRE(i < table.size() && table[i] >= 0, "no block for a row of ", planned.id);
        check(table[i]);
      }
    }
  }
}

// One that all its blocks are set aside for never lacks any, but for those on their way.
void SchedulerWorld::CheckReservedAreServed(const StepPlan& plan) const {
  const BlockPool& pool = scheduler_.pool();
  if (num_in_flight() > 0 || pool.num_touched() < pool.num_blocks()) return;
  for (const auto& [id, choice] : choices_) {
    const Sequence* const sequence = scheduler_.Look(id);
    if (sequence == nullptr || !sequence->is_running || !sequence->full_reservation) continue;
    const bool is_planned =
        std::any_of(plan.sequences.begin(), plan.sequences.end(),
                    [&](const PlannedSequence& planned) { return planned.id == sequence->id; });
    SIM_REQUIRE(is_planned || sequence->num_remaining() == 0, "sequence ", id, " starves");
  }
}

void SchedulerWorld::NameBlocks(const StepPlan& plan) {
  std::vector<Named>& named = named_[plan.step_id];
  const auto name = [&](BlockId block) {
    if (block != kNoBlock) named.push_back({block, scheduler_.pool().generation(block)});
  };
  for (const BlockCopyPlan& copy : plan.copies) {
    name(copy.source);
    name(copy.target);
  }
  for (const PlannedSequence& planned : plan.sequences) {
    for (const std::vector<int32_t>& table : planned.block_tables) {
      for (const BlockId block : table) name(block);
    }
  }
}

void SchedulerWorld::CommitStep(Fault fault, int32_t a) {
  if (in_flight_.empty()) return;
  const FlyingStep step = std::move(in_flight_.front());
  in_flight_.pop_front();
  named_.erase(step.id);
  const auto [hit_id, num_draws] = step.parts[static_cast<size_t>(a) % step.parts.size()];
  std::set<SequenceId> broken;
  if (fault == Fault::kNotFinite) broken.insert(hit_id);
  std::vector<ExecutedSequence> executed;
  SIM_REQUIRE_EQ(device_.Retire(broken, fault == Fault::kStepLost, &executed), "");
  if (fault == Fault::kStepLost) {
    for (const FlyingStep::Part& part : step.parts) MustEnd(part.id, EndReason::kEngineFailed);
    Told(scheduler_.CommitFailed(step.id, now_));
    CheckDueAreGone();
    return;
  }
  if (fault == Fault::kNotFinite) MustEnd(hit_id, EndReason::kNumericalFault);
  std::vector<SequenceResult> results(executed.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (fault == Fault::kNoToken && executed[i].id == hit_id && num_draws > 0) {
      const int32_t choice = a / 16 % num_draws;
      executed[i].drawn[choice] = -1;
      const auto found = choices_.find(hit_id + choice);
      if (found != choices_.end() && IsBorn(hit_id)) {
        found->second.must_end = true;
        found->second.may_end.insert(EndReason::kNoTokenAllowed);
      }
    }
    results[i].token_ids = executed[i].drawn;
    results[i].finite = !broken.contains(executed[i].id);
  }
  Told(scheduler_.Commit(step.id, results, now_));
  CheckDueAreGone();
}

}  // namespace quire
