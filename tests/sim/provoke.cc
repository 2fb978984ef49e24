// Events that a scenario brings about: its target, and faults at random. Each is a named point with
// a seeded probability (SimEvent).
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "tests/sim/world.h"

namespace quire {
namespace {

constexpr int32_t kMostProvoked = 12;  // times that a scenario's target is brought about
constexpr TimeUs kDrainTimeout = 200'000;

TimeUs LimitOf(const Request& request, SimEvent event) {
  switch (event) {
    case SimEvent::kDeadline:
      return request.deadline;
    case SimEvent::kTimeLimit:
      return request.time_limit;
    default:
      return request.queue_deadline;
  }
}

}  // namespace

// Between any two calls of the scheduler, something may happen.
void World::Provoke() {
  ProvokeTarget();
  for (size_t i = 0; i < kNumSimEvents && verdict_.ok(); ++i) {
    if (per_mille_[i] == 0 || !random_.ChancePerMille(per_mille_[i])) continue;
    const auto& live = ledger_->live();
    if (live.empty()) return;
    auto chosen = live.begin();
    std::advance(chosen, random_.Pick(0, static_cast<int32_t>(live.size()) - 1));
    const auto event = static_cast<SimEvent>(i);
    if (CanBefall(event, chosen->first)) Befall(event, chosen->first);
  }
}

// A limit of time that is far away, if the scenario's target is that it is reached.
void World::GiveLimit(Request* request) const {
  constexpr TimeUs kFarAway = 3'600'000'000;
  TimeUs* const limit = scenario_.target.event == SimEvent::kDeadline    ? &request->deadline
                        : scenario_.target.event == SimEvent::kTimeLimit ? &request->time_limit
                        : scenario_.target.event == SimEvent::kQueueTimeout
                            ? &request->queue_deadline
                            : nullptr;
  if (limit != nullptr && *limit == kNever) *limit = now_ + kFarAway;
}

void World::ProvokeTarget() {
  const bool comes_by_itself = scenario_.target.event >= SimEvent::kStop;
  if (comes_by_itself || num_provoked_ >= kMostProvoked) return;
  std::vector<SequenceId> met;
  for (const auto& [id, live] : ledger_->live()) {
    if (live.is_added && live.state == scenario_.target.state) met.push_back(id);
  }
  for (const SequenceId id : met) {
    if (!random_.Chance(50) || !CanBefall(scenario_.target.event, id)) continue;
    ++num_provoked_;
    Befall(scenario_.target.event, id);
    return;
  }
}

bool World::CanBefall(SimEvent event, SequenceId id) {
  const LiveSequence& live = ledger_->live().at(id);
  if (!live.is_added || live.must_end || !IsLegal({live.state, event})) return false;
  switch (event) {
    case SimEvent::kStepFails:
    case SimEvent::kRowIsNaN:
    case SimEvent::kSlowStep:
      return StepWith(id, false) != nullptr;
    case SimEvent::kNothingToDraw:
      return StepWith(id, true) != nullptr;
    case SimEvent::kDeadline:
    case SimEvent::kTimeLimit:
    case SimEvent::kQueueTimeout:
      return LimitOf(*live.request, event) != kNever;
    case SimEvent::kMemoryStalls:
      return touched_ >= 0 && touched_ < config_.num_blocks;
    case SimEvent::kFirstSignal:
    case SimEvent::kSecondSignal:
      return !is_draining_;
    default:
      return true;
  }
}

// The oldest step with rows of it.
World::FlyingStep* World::StepWith(SequenceId id, bool with_draw) {
  for (FlyingStep& step : in_flight_) {
    for (const FlyingPart& part : step.parts) {
      if (part.id == id && (part.draws || !with_draw)) return &step;
    }
  }
  return nullptr;
}

void World::Befall(SimEvent event, SequenceId id) {
  LiveSequence& live = ledger_->live().at(id);
  Print([&] {
    return absl::StrCat("event ", static_cast<int>(event), " meets ", id, " in state ",
                        static_cast<int>(live.state));
  });
  const bool meets_all = event == SimEvent::kClockJump || event == SimEvent::kFirstSignal ||
                         event == SimEvent::kSecondSignal || event == SimEvent::kMemoryStalls;
  if (meets_all) {
    CountForAll(event);
  } else {
    coverage_.Count(live.state, event);
  }
  switch (event) {
    case SimEvent::kCancel:
      return EndNow(id, EndReason::kCancelled);
    case SimEvent::kAbort:
      return EndNow(id, EndReason::kAborted);
    case SimEvent::kSlowReader:
      return EndNow(id, EndReason::kSlowConsumer);
    // The request has the limit since it came; the time until then is over now.
    case SimEvent::kDeadline:
    case SimEvent::kTimeLimit:
    case SimEvent::kQueueTimeout:
      now_ = std::max(now_, LimitOf(*live.request, event));
      return;
    case SimEvent::kStepFails:
      StepWith(id, false)->fails = true;
      return;
    case SimEvent::kRowIsNaN:
      StepWith(id, false)->broken.insert(id);
      return;
    case SimEvent::kNothingToDraw:
      StepWith(id, true)->without_token.insert(id);
      return;
    case SimEvent::kFirstSignal:
      return FirstSignal();
    case SimEvent::kSecondSignal:
      return SecondSignal();
    case SimEvent::kClockJump:
      now_ += random_.LongTail(1, 100'000'000);
      return;
    case SimEvent::kSlowStep: {
      const TimeUs delay = random_.Pick(10'000, 500'000);
      for (FlyingStep& step : in_flight_) {
        step.done_at += delay;
        Schedule(step.done_at, What::kStepDone);
      }
      return;
    }
    case SimEvent::kMemoryStalls:
      touching_stalls_until_ = now_ + random_.Pick(1'000, 100'000);
      return;
    default:
      verdict_.Fail("this event comes by itself");
  }
}

void World::CountForAll(SimEvent event) {
  for (const auto& [id, live] : ledger_->live()) {
    if (live.is_added && IsLegal({live.state, event})) coverage_.Count(live.state, event);
  }
}

// Nobody new is let in, what never ran ends, the rest has a while. Requests in the inbox count as
// queued: the engine takes them in first.
void World::FirstSignal() {
  is_draining_ = true;
  inbox_->EndQueued();
  Schedule(now_ + kDrainTimeout, What::kSecondSignal);
}

void World::SecondSignal() {
  is_draining_ = true;
  std::vector<SequenceId> all;
  for (const auto& [id, live] : ledger_->live()) {
    if (live.is_added) all.push_back(id);
  }
  inbox_->EndQueued();
  for (const SequenceId id : all) EndNow(id, EndReason::kDraining);
}

}  // namespace quire
