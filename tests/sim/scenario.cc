// The server that a scenario is played on: sizes, modes, and how likely faults are.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "tests/sim/world.h"

namespace quire {

void World::ChooseConfig() {
  config_.block_size = 1 << random_.Pick(1, 3);
  const std::vector<std::vector<int32_t>> groups = {{0},
                                                    {0},
                                                    {0},
                                                    {0, random_.Pick(2, 20)},
                                                    {random_.Pick(2, 20)},
                                                    {0, 0, random_.Pick(2, 9)},
                                                    {random_.Pick(2, 9), 16}};
  config_.group_windows = groups[random_.Pick(0, static_cast<int32_t>(groups.size()) - 1)];
  const auto num_groups = static_cast<int32_t>(config_.group_windows.size());
  config_.max_num_seqs = random_.Pick(1, 6);
  config_.max_num_batched_tokens = config_.max_num_seqs + random_.Pick(1, 40);
  config_.max_logit_rows = config_.max_num_seqs + random_.Pick(0, 40);
  config_.num_blocks = num_groups * (random_.Pick(20, 120) / config_.block_size + 2);
  if (random_.Chance(15)) config_.num_blocks *= 8;
  if (random_.Chance(20)) config_.num_blocks = num_groups * random_.Pick(6, 14);
  config_.max_queued_requests = random_.Pick(4, 40);
  if (random_.Chance(20)) config_.max_queued_prefill_tokens = random_.Pick(20, 400);
  config_.max_steps_in_flight = random_.Chance(40) ? 1 : random_.Chance(85) ? 2 : 3;
  config_.admission = random_.Chance(20) ? AdmissionMode::kReserve : AdmissionMode::kOptimistic;
  config_.prefix_caching = random_.Chance(85);
  config_.max_preemptions = random_.Pick(0, 3);
  config_.max_overtakes = random_.Pick(0, 4);
  config_.max_model_len = random_.Chance(70) ? 0 : random_.Pick(20, 120);
  config_.block_shuffle_seed = random_.Chance(50) ? random_.Bits() : 0;
  if (random_.Chance(40)) {
    config_.us_per_step = random_.Pick(0, 120'000);
    config_.us_per_row = random_.Pick(0, 12'000);
    config_.us_per_attended = random_.Pick(0, 100);
  }
  if (random_.Chance(30)) config_.prefix_hash_bits = random_.Pick(0, 3);
  vocab_size_ = random_.Chance(50) ? 12 : 30'000;
  writes_land_early_ = random_.Chance(50);
  num_inbox_places_ = random_.Chance(20) ? random_.Pick(1, 4) : config_.max_queued_requests;
  if (random_.Chance(30)) touched_ = random_.Pick(0, 2);
  if (!scenario_.has_other_faults) return;
  for (const SimEvent event :
       {SimEvent::kCancel, SimEvent::kAbort, SimEvent::kSlowReader, SimEvent::kDeadline,
        SimEvent::kTimeLimit, SimEvent::kQueueTimeout, SimEvent::kStepFails, SimEvent::kRowIsNaN,
        SimEvent::kNothingToDraw, SimEvent::kClockJump, SimEvent::kSlowStep,
        SimEvent::kMemoryStalls}) {
    if (random_.Chance(25)) per_mille_[static_cast<size_t>(event)] = random_.Pick(1, 8);
  }
  // Ends the world soon after: rarely.
  if (random_.Chance(4)) per_mille_[static_cast<size_t>(SimEvent::kFirstSignal)] = 3;
}

bool World::NeedsPreemption() const {
  const SimState state = scenario_.target.state;
  return state == SimState::kPreempted || state == SimState::kPreemptedInFlight ||
         state == SimState::kRecompute || state == SimState::kRecomputeInFlight;
}

// So that the state is met at all, and often.
void World::ShapeConfigForTarget() {
  const SimState state = scenario_.target.state;
  const auto num_groups = static_cast<int32_t>(config_.group_windows.size());
  if (NeedsPreemption()) {
    config_.admission = AdmissionMode::kOptimistic;
    config_.max_preemptions = std::max(config_.max_preemptions, 2);
    config_.max_num_seqs = random_.Pick(4, 7);
    config_.max_num_batched_tokens = config_.max_num_seqs + random_.Pick(1, 8);
    config_.max_logit_rows = config_.max_num_seqs + random_.Pick(0, 20);
    config_.num_blocks = num_groups * (random_.Pick(60, 150) / config_.block_size + 2);
    config_.max_model_len = 0;
    config_.max_queued_prefill_tokens = 0;
    touched_ = -1;
  }
  if (state == SimState::kRecompute || state == SimState::kRecomputeInFlight) {
    // Long recomputes, of what no cache has, while others need a block every other step.
    config_.prefix_caching = random_.Chance(20);
    config_.block_size = 2;
    config_.num_blocks = num_groups * random_.Pick(40, 80);
    config_.max_preemptions = 3;
    config_.max_num_batched_tokens = config_.max_num_seqs + random_.Pick(1, 2);
  }
  if (state == SimState::kPreemptedInFlight) config_.max_steps_in_flight = 2;
  if (state == SimState::kWaitsForPrefix) {
    config_.prefix_caching = true;
    config_.max_num_batched_tokens = config_.max_num_seqs + random_.Pick(1, 8);
  }
  if (scenario_.target.event == SimEvent::kMemoryStalls && touched_ < 0) touched_ = 2;
  if (scenario_.trace != nullptr) {
    config_.num_blocks = num_groups * random_.Pick(60, 300);
    config_.max_model_len = 0;
  }
}

std::string World::DescribeConfig() const {
  std::string text = absl::StrCat(
      "seed ", scenario_.seed, " blocks ", config_.num_blocks, "x", config_.block_size, " windows ",
      absl::StrJoin(config_.group_windows, ","), " seqs ", config_.max_num_seqs, " tokens ",
      config_.max_num_batched_tokens, " depth ", config_.max_steps_in_flight, " reserve ",
      config_.admission == AdmissionMode::kReserve, " caching ", config_.prefix_caching,
      " preemptions ", config_.max_preemptions, " overtakes ", config_.max_overtakes, " touched ",
      touched_, " early ", writes_land_early_);
  for (size_t event = 0; event < kNumSimEvents; ++event) {
    if (per_mille_[event] > 0) absl::StrAppend(&text, " fault", event, ":", per_mille_[event]);
  }
  return text;
}

}  // namespace quire
