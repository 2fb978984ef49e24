#ifndef QUIRE_TESTS_SIM_SHADOW_DEVICE_H_
#define QUIRE_TESTS_SIM_SHADOW_DEVICE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "scheduler/scheduler.h"

namespace quire {

// What a model that reads the whole history would draw: the only right answer, whatever the batch.
// A history is folded token by token, starting from the salt, so that KV of another tenant, of
// another position or after another prefix is another number.
inline uint64_t StartOfHistory(const std::string& salt) {
  return std::hash<std::string>()(salt) | 1;
}
inline uint64_t ExtendHistory(uint64_t history, int32_t token) {
  history ^= static_cast<uint64_t>(token) + 0x9e3779b97f4a7c15ULL + (history << 6);
  history *= 0xff51afd7ed558ccdULL;
  return history ^ (history >> 32);
}
inline int32_t DrawFrom(uint64_t history, uint64_t seed, int32_t vocab_size) {
  return static_cast<int32_t>((ExtendHistory(history, 17) ^ (seed * 0x2545f4914f6cdd1dULL)) %
                              static_cast<uint64_t>(vocab_size));
}

// All that a choice will ever be, known from its request alone.
struct Truth {
  Truth() = default;
  Truth(const Request& request, int32_t choice, int32_t vocab_size)
      : tokens(request.prompt_token_ids) {
    uint64_t history = StartOfHistory(request.cache_salt);
    for (const int32_t token : tokens) {
      histories.push_back(history = ExtendHistory(history, token));
    }
    for (int32_t i = 0; i < request.max_tokens; ++i) {
      tokens.push_back(DrawFrom(history, request.sampling.seed + 77 * choice, vocab_size));
      histories.push_back(history = ExtendHistory(history, tokens.back()));
    }
  }
  std::vector<int32_t> tokens;      // prompt, then what the model draws (stop tokens ignored)
  std::vector<uint64_t> histories;  // [tokens]
};

// ShadowDevice runs plans on a KV memory whose slots hold the history of the token that was
// written there, and checks what a plan asks for: every key that a row sees belongs to exactly the
// tokens before it, no block is written by two sequences, no shared block is written, no block is
// reused while an uncommitted step names it.
//
// Steps run when they commit, as late as a device may.
class ShadowDevice {
 public:
  explicit ShadowDevice(const SchedulerConfig& config)
      : config_(config),
        slots_(static_cast<size_t>(config.num_blocks) * config.block_size),
        last_token_(config.max_num_seqs, -1) {}

  // Checks a plan against the steps that are not committed. "" or what is wrong.
  std::string Accept(const StepPlan& plan);
  // Runs the oldest step: fills in the tokens drawn, valid until the next Run. `truths`: of the
  // sequences that live.
  std::string Run(const StepPlan& plan, const std::map<SequenceId, Truth>& truths,
                  std::vector<SequenceResult>* results);
  // The oldest step has committed.
  void Forget(uint64_t step_id) { named_.erase(step_id); }

 private:
  struct User {
    SequenceId id = 0;
    int32_t index = 0;  // in the sequence's block table
    auto operator<=>(const User&) const = default;
  };

  static int32_t NumWritten(const PlannedSequence& planned) {
    return planned.num_tokens - (planned.last_row_cached ? 1 : 0);
  }
  static SequenceId FirstChoiceOf(const StepPlan& plan, SequenceId id) {
    for (const PlannedSequence& planned : plan.sequences) {
      if (planned.id == id) return id - planned.first_choice;
    }
    return 0;
  }
  uint64_t& Slot(int32_t block, int32_t position) {
    return slots_[static_cast<size_t>(block) * config_.block_size + position % config_.block_size];
  }
  std::string RunSequence(const PlannedSequence& planned, const Truth& truth);
  std::string CheckSeen(const PlannedSequence& planned, int32_t group, int32_t position,
                        const Truth& truth);

  const SchedulerConfig config_;
  std::vector<uint64_t> slots_;              // [num_blocks, block_size]; 0: poison
  std::vector<int32_t> last_token_;          // [max_num_seqs]
  std::vector<std::vector<int32_t>> drawn_;  // of the step that ran last: [sequences, num_draws]
  // Blocks that uncommitted steps name, and for whom.
  std::map<uint64_t, std::map<int32_t, std::set<User>>> named_;
};

inline std::string ShadowDevice::Accept(const StepPlan& plan) {
  std::map<int32_t, std::set<User>> named;
  std::map<int32_t, User> written;
  std::set<int32_t> slots;
  int32_t num_tokens = 0;
  int32_t num_logit_rows = 0;
  for (const PlannedSequence& planned : plan.sequences) {
    const std::string who = absl::StrCat("sequence ", planned.id, ": ");
    num_tokens += planned.num_tokens;
    num_logit_rows += planned.wants_prompt_rows ? planned.num_tokens : planned.num_draws > 0;
    if (planned.num_tokens < 1) return who + "planned without rows";
    if (!slots.insert(planned.seq_slot).second) return who + "seq_slot is taken";
    if (planned.seq_slot < 0 || planned.seq_slot >= config_.max_num_seqs) return who + "seq_slot";
    for (const std::vector<int32_t>& table : planned.block_tables) {
      for (int32_t i = 0; i < static_cast<int32_t>(table.size()); ++i) {
        if (table[i] >= 0) named[table[i]].insert({planned.id, i});
      }
      const int32_t end = planned.first_position + NumWritten(planned);
      for (int32_t p = planned.first_position; p < end; ++p) {
        const int32_t i = p / config_.block_size;
        if (i >= static_cast<int32_t>(table.size())) return who + "no block for a row";
        if (table[i] < 0) return who + "row in a block that was given back";
        const auto [it, is_new] = written.insert({table[i], User{planned.id, i}});
        if (!is_new && it->second != User{planned.id, i}) return who + "block written twice";
      }
    }
  }
  for (const BlockCopyPlan& copy : plan.copies) {
    if (!named.contains(copy.target) || named[copy.target].size() != 1) return "stray copy";
    const User target = *named[copy.target].begin();
    // Copies come before the rows of the step: the choice that is copied from may write on.
    const auto writer = written.find(copy.source);
    if (writer != written.end() && writer->second.id != FirstChoiceOf(plan, target.id)) {
      return "the source of a copy is written";
    }
    written.insert({copy.target, target});
    if (writer == written.end()) named[copy.source].insert({0, 0});
  }
  for (const auto& [block, user] : written) {
    for (const User& other : named[block]) {
      if (other != user) return absl::StrCat("block ", block, " is shared and written");
    }
    for (const auto& [step, blocks] : named_) {
      const auto found = blocks.find(block);
      if (found == blocks.end()) continue;
      for (const User& other : found->second) {
        if (other != user) return absl::StrCat("block ", block, " is still named by step ", step);
      }
    }
  }
  if (num_tokens != plan.num_tokens) return "num_tokens is not the sum";
  if (num_tokens > config_.max_num_batched_tokens) return "over the token budget";
  if (num_logit_rows > config_.max_logit_rows) return "over the logit rows";
  if (num_tokens > 0) named_[plan.step_id] = std::move(named);
  return "";
}

inline std::string ShadowDevice::Run(const StepPlan& plan,
                                     const std::map<SequenceId, Truth>& truths,
                                     std::vector<SequenceResult>* results) {
  for (const BlockCopyPlan& copy : plan.copies) {
    for (int32_t i = 0; i < config_.block_size; ++i) Slot(copy.target, i) = Slot(copy.source, i);
  }
  results->resize(plan.sequences.size());
  drawn_.assign(plan.sequences.size(), {});
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& planned = plan.sequences[i];
    const auto truth = truths.find(planned.id);
    if (truth == truths.end()) continue;  // ended meanwhile: its rows are nobody's business
    const std::string wrong = RunSequence(planned, truth->second);
    if (!wrong.empty()) return absl::StrCat("sequence ", planned.id, ": ", wrong);
    const int32_t end = planned.first_position + planned.num_tokens;
    for (int32_t choice = 0; choice < planned.num_draws; ++choice) {
      drawn_[i].push_back(truths.at(planned.id + choice).tokens[end]);
    }
    if (planned.num_draws > 0) last_token_[planned.seq_slot] = drawn_[i][0];
    (*results)[i].token_ids = drawn_[i];
  }
  return "";
}

inline std::string ShadowDevice::RunSequence(const PlannedSequence& planned, const Truth& truth) {
  const int32_t end = planned.first_position + planned.num_tokens;
  for (int32_t p = planned.first_position; p < end; ++p) {
    int32_t token = planned.token_ids[p - planned.first_position];
    if (token < 0) {
      if (token != -1 - planned.seq_slot) return "a token of somebody else's slot";
      token = last_token_[planned.seq_slot];
    }
    if (p >= static_cast<int32_t>(truth.tokens.size())) return "a row past the end";
    if (token != truth.tokens[p]) return absl::StrCat("a wrong token at position ", p);
    if (p == planned.first_position + NumWritten(planned)) break;
    for (const std::vector<int32_t>& table : planned.block_tables) {
      const int32_t block = table[p / config_.block_size];
      if (p % config_.block_size == 0) {
        for (int32_t i = 0; i < config_.block_size; ++i) Slot(block, i) = 0;
      }
      Slot(block, p) = truth.histories[p];
    }
  }
  for (size_t group = 0; group < planned.block_tables.size(); ++group) {
    for (const int32_t p : {planned.first_position, end - 1}) {
      const std::string wrong = CheckSeen(planned, static_cast<int32_t>(group), p, truth);
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

inline std::string ShadowDevice::CheckSeen(const PlannedSequence& planned, int32_t group,
                                           int32_t position, const Truth& truth) {
  const int32_t window = config_.group_windows[group];
  const int32_t first = window == 0 ? 0 : std::max(0, position - window + 1);
  for (int32_t p = first; p <= position; ++p) {
    const int32_t block = planned.block_tables[group][p / config_.block_size];
    if (block < 0) return absl::StrCat("position ", p, " was given back, ", position, " sees it");
    if (Slot(block, p) != truth.histories[p]) {
      return absl::StrCat("position ", p, " holds the KV of other tokens");
    }
  }
  return "";
}

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_SHADOW_DEVICE_H_
