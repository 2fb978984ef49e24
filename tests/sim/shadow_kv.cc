#include "tests/sim/shadow_kv.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace quire {

ShadowKv::ShadowKv(const SchedulerConfig& config, int32_t vocab_size, bool writes_land_early)
    : config_(config),
      block_size_(config.block_size),
      vocab_size_(vocab_size),
      writes_land_early_(writes_land_early),
      slots_(static_cast<size_t>(config.num_blocks) * config.block_size),
      writers_(slots_.size()),
      is_poisoned_(config.num_blocks),
      last_token_(config.max_num_seqs, -1) {
  for (ShadowSlot& slot : slots_) slot = Poison();
}

// ---- launch ----

std::string ShadowKv::Launch(const StepPlan& plan) {
  Step step;
  step.id = plan.step_id;
  for (const std::string& wrong :
       {CheckLimits(plan), TakeParts(plan, &step), TakeCopies(plan, &step)}) {
    if (!wrong.empty()) return wrong;
  }
  for (Part& part : step.parts) {
    part.seen_at_launch = Seen(part, part.first_position, part.own_from);
  }
  for (Copy& copy : step.copies) copy.seen_at_launch = SeenOfCopy(copy);
  std::string wrong = MarkWrites(step);
  launched_.push_back(std::move(step));
  return wrong;
}

std::string ShadowKv::CheckLimits(const StepPlan& plan) const {
  std::set<int32_t> slots;
  int32_t num_tokens = 0;
  int32_t num_logit_rows = 0;
  for (const PlannedSequence& planned : plan.sequences) {
    num_tokens += planned.num_tokens;
    num_logit_rows += planned.wants_prompt_rows ? planned.num_tokens : planned.num_draws > 0;
    if (planned.num_tokens < 1) return absl::StrCat("sequence ", planned.id, " without rows");
    if (planned.seq_slot < 0 || planned.seq_slot >= config_.max_num_seqs) return "a wild seq_slot";
    if (!slots.insert(planned.seq_slot).second) return "two sequences in one seq_slot";
    if (static_cast<int32_t>(planned.token_ids.size()) != planned.num_tokens) {
      return "a token id for each row";
    }
  }
  if (num_tokens != plan.num_tokens) return "num_tokens is not the sum";
  if (num_tokens > config_.max_num_batched_tokens) return "over the token budget";
  if (num_logit_rows > config_.max_logit_rows) return "over the logit rows";
  return "";
}

std::string ShadowKv::TakeParts(const StepPlan& plan, Step* step) const {
  for (const PlannedSequence& planned : plan.sequences) {
    Part& part = step->parts.emplace_back();
    part.id = planned.id;
    part.seq_slot = planned.seq_slot;
    part.first_position = planned.first_position;
    part.num_tokens = planned.num_tokens;
    part.num_written = planned.num_written();
    part.first_choice = planned.first_choice;
    part.num_draws = planned.num_draws;
    part.seed = planned.request->sampling.seed;
    part.salt = SeenByFirstRow(planned.request->cache_salt);
    part.token_ids.assign(planned.token_ids.begin(), planned.token_ids.end());
    for (const auto& table : planned.block_tables) {
      part.block_tables.emplace_back(table.begin(), table.end());
    }
    part.own_from = part.first_position;
    for (const Step& earlier : launched_) {
      for (const Part& other : earlier.parts) {
        if (other.id == part.id) part.own_from = std::min(part.own_from, other.own_from);
      }
    }
    const int32_t end = part.first_position + part.num_tokens;
    if (part.block_tables.size() != config_.group_windows.size()) return "a table for each group";
    for (size_t group = 0; group < part.block_tables.size(); ++group) {
      const std::vector<BlockId>& table = part.block_tables[group];
      if (static_cast<int32_t>(table.size()) * block_size_ < end) {
        return absl::StrCat("sequence ", part.id, ": a row without a slot");
      }
      for (int32_t p = FirstSeen(config_.group_windows[group], part.first_position); p < end; ++p) {
        const BlockId block = table[p / block_size_];
        if (block < 0 || block >= config_.num_blocks) {
          return absl::StrCat("sequence ", part.id, ": position ", p, " is seen and has no block");
        }
      }
    }
  }
  return "";
}

std::string ShadowKv::TakeCopies(const StepPlan& plan, Step* step) const {
  for (const BlockCopyPlan& planned : plan.copies) {
    Copy copy{.source = planned.source, .target = planned.target};
    for (Part& part : step->parts) {
      for (const std::vector<BlockId>& table : part.block_tables) {
        const auto found = std::find(table.begin(), table.end(), copy.target);
        if (found == table.end()) continue;
        const auto first = static_cast<int32_t>(found - table.begin()) * block_size_;
        copy.num_slots = part.first_position - first;
        part.own_from = std::min(part.own_from, first);
      }
    }
    if (copy.source == copy.target || copy.num_slots <= 0 || copy.num_slots > block_size_) {
      return absl::StrCat("a stray copy of block ", copy.source, " to ", copy.target);
    }
    step->copies.push_back(copy);
  }
  return "";
}

// Who writes where until the step has ended.
std::string ShadowKv::MarkWrites(const Step& step) {
  const auto mark = [this](BlockId block, int32_t position, SequenceId id) -> bool {
    is_poisoned_[block] = false;
    SequenceId& writer =
        writers_[static_cast<size_t>(block) * block_size_ + position % block_size_];
    if (writer != 0 && writer != id) return false;
    writer = id;
    if (writes_land_early_) SlotAt(block, position) = Poison();
    return true;
  };
  for (const Part& part : step.parts) {
    for (const std::vector<BlockId>& table : part.block_tables) {
      for (int32_t i = 0; i < part.num_written; ++i) {
        const int32_t position = part.first_position + i;
        if (!mark(table[position / block_size_], position, part.id)) {
          return absl::StrCat("sequence ", part.id, ": somebody else is writing position ",
                              position);
        }
      }
    }
  }
  for (const Copy& copy : step.copies) {
    is_poisoned_[copy.target] = false;
    for (int32_t i = 0; writes_land_early_ && i < copy.num_slots; ++i) {
      SlotAt(copy.target, i) = Poison();
    }
  }
  return "";
}

// ---- retire ----

std::string ShadowKv::Retire(const std::set<SequenceId>& broken, bool step_fails,
                             std::vector<ExecutedSequence>* executed) {
  const Step step = std::move(launched_.front());
  launched_.pop_front();
  for (const Copy& copy : step.copies) {
    for (int32_t i = 0; i < block_size_; ++i) {
      const bool is_copied = i < copy.num_slots && !step_fails;
      SlotAt(copy.target, i) = is_copied ? SlotAt(copy.source, i) : Poison();
    }
  }
  executed->assign(step.parts.size(), {});
  for (size_t i = 0; i < step.parts.size(); ++i) {
    const Part& part = step.parts[i];
    const bool is_broken = step_fails || broken.contains(part.id);
    const std::string wrong = RunPart(part, is_broken, &(*executed)[i]);
    if (!wrong.empty()) return absl::StrCat("sequence ", part.id, ": ", wrong);
  }
  for (const Part& part : step.parts) {
    if (Seen(part, part.first_position, part.own_from) != part.seen_at_launch) {
      return absl::StrCat("step ", step.id, ": what sequence ", part.id,
                          " reads changed while the step was on its way");
    }
  }
  for (const Copy& copy : step.copies) {
    if (SeenOfCopy(copy) != copy.seen_at_launch) {
      return absl::StrCat("step ", step.id, ": block ", copy.source,
                          " changed while it was to be copied");
    }
  }
  return "";
}

std::string ShadowKv::RunPart(const Part& part, bool is_broken, ExecutedSequence* executed) {
  executed->id = part.id;
  executed->first_position = part.first_position;
  executed->num_tokens = part.num_tokens;
  const auto num_groups = static_cast<int32_t>(part.block_tables.size());
  for (int32_t i = 0; i < part.num_tokens; ++i) {
    const int32_t position = part.first_position + i;
    int32_t token = part.token_ids[i];
    if (token < 0) {
      if (token != -1 - part.seq_slot) return "the token of somebody else's slot";
      token = last_token_[part.seq_slot];
    }
    const uint64_t seen = position == 0 ? part.salt : Seen(part, position, position);
    uint64_t digest = seen;
    for (int32_t group = 0; group < num_groups; ++group) {
      const BlockId block = part.block_tables[group][position / block_size_];
      ShadowSlot& slot = SlotAt(block, position);
      if (i < part.num_written) {
        slot = is_broken ? Poison() : MakeSlot(seen, position, token);
        writers_[static_cast<size_t>(block) * block_size_ + position % block_size_] = 0;
      }
      digest += ReadSlot(slot, group);
    }
    if (i == 0) executed->first_digest = digest;
    executed->last_digest = digest;
  }
  for (int32_t choice = 0; choice < part.num_draws; ++choice) {
    executed->drawn.push_back(
        DrawToken(executed->last_digest, part.seed, part.first_choice + choice, vocab_size_));
  }
  if (part.num_draws > 0) last_token_[part.seq_slot] = executed->drawn[0];
  return "";
}

uint64_t ShadowKv::Seen(const Part& part, int32_t position, int32_t end) const {
  uint64_t seen = 0;
  for (size_t group = 0; group < part.block_tables.size(); ++group) {
    const std::vector<BlockId>& table = part.block_tables[group];
    for (int32_t p = FirstSeen(config_.group_windows[group], position); p < end; ++p) {
      seen += ReadSlot(SlotAt(table[p / block_size_], p), static_cast<int32_t>(group));
    }
  }
  return seen;
}

uint64_t ShadowKv::SeenOfCopy(const Copy& copy) const {
  uint64_t seen = 0;
  for (int32_t i = 0; i < copy.num_slots; ++i) seen += ReadSlot(SlotAt(copy.source, i), 0);
  return seen;
}

void ShadowKv::PoisonFreeBlocks(const BlockPool& pool) {
  for (BlockId block = 0; block < pool.num_blocks(); ++block) {
    if (is_poisoned_[block] || !pool.is_free(block)) continue;
    for (int32_t i = 0; i < block_size_; ++i) SlotAt(block, i) = Poison();
    is_poisoned_[block] = true;
  }
}

}  // namespace quire
