#ifndef QUIRE_TESTS_SIM_ECHO_DEVICE_H_
#define QUIRE_TESTS_SIM_ECHO_DEVICE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/sim/acts.h"

namespace quire {

inline uint64_t Mix(uint64_t state, uint64_t value) {
  state ^= value + 0x9e3779b97f4a7c15ULL + (state << 6) + (state >> 2);
  state *= 0xff51afd7ed558ccdULL;
  return state ^ (state >> 32);
}

// The language model of these tests. A row's value is made of its token, its position, the salt and
// the values of all rows that it sees, as its attention groups see them; so of everything before.
// Its KV in a group is the value and the group; the token drawn from it, the value and the choice.
struct EchoModel {
  static constexpr int32_t kVocabSize = 12;

  std::vector<int32_t> windows;  // [num_groups]; 0: full

  // `kv(group, position)`: what the row sees there.
  template <typename Kv>
  uint64_t Value(const Request& request, int32_t token, int32_t position, const Kv& kv) const {
    uint64_t value = Mix(std::hash<std::string>()(request.cache_salt) ^ position, token);
    for (int32_t group = 0; group < static_cast<int32_t>(windows.size()); ++group) {
      const int32_t first = windows[group] == 0 ? 0 : std::max(0, position - windows[group] + 1);
      for (int32_t p = first; p < position; ++p) value = Mix(value, kv(group, p));
    }
    return value;
  }
  static uint64_t KvOf(uint64_t value, int32_t group) { return Mix(value, 1 + group); }
  static int32_t Draw(uint64_t value, const Request& request, uint32_t choice) {
    return static_cast<int32_t>(Mix(Mix(value, request.sampling.seed), choice) % kVocabSize);
  }

  // The prompt, and all that a choice gets if nothing stops it: what it would get alone.
  std::vector<int32_t> TokensOf(const Request& request, uint32_t choice) const {
    std::vector<int32_t> tokens = request.prompt_token_ids;
    std::vector<uint64_t> values;
    const auto kv = [&](int32_t group, int32_t p) { return KvOf(values[p], group); };
    const size_t end = tokens.size() + request.max_tokens;
    while (tokens.size() < end) {
      const auto position = static_cast<int32_t>(values.size());
      values.push_back(Value(request, tokens[position], position, kv));
      if (values.size() == tokens.size()) tokens.push_back(Draw(values.back(), request, choice));
    }
    return tokens;
  }
};

// Runs plans with EchoModel on a KV memory that it reads and writes only through the plans' block
// tables: a row that sees a wrong slot draws a wrong token. Steps run in order, when they commit:
// as late as a device may. What a lost step would have written is poisoned.
class EchoDevice {
 public:
  explicit EchoDevice(const SchedulerConfig& config)
      : config_(config),
        model_{config.group_windows},
        slots_(static_cast<size_t>(config.num_blocks) * config.block_size),
        last_token_(config.max_num_seqs, -1) {}

  // Returns the tokens drawn [sequences, num_draws].
  std::vector<std::vector<int32_t>> Run(const StepPlan& plan) {
    for (const BlockCopyPlan& copy : plan.copies) {
      for (int32_t i = 0; i < config_.block_size; ++i) Slot(copy.target, i) = Slot(copy.source, i);
    }
    std::vector<std::vector<int32_t>> drawn;
    for (const PlannedSequence& planned : plan.sequences) {
      uint64_t value = 0;
      for (int32_t row = 0; row < planned.num_tokens; ++row) value = RunRow(planned, row);
      std::vector<int32_t>& tokens = drawn.emplace_back();
      for (int32_t i = 0; i < planned.num_draws; ++i) {
        tokens.push_back(EchoModel::Draw(value, *planned.request, planned.first_choice + i));
      }
      if (planned.num_draws > 0) last_token_[planned.seq_slot] = tokens[0];
    }
    return drawn;
  }

  // The step is lost.
  void Lose(const StepPlan& plan) {
    for (const BlockCopyPlan& copy : plan.copies) {
      for (int32_t i = 0; i < config_.block_size; ++i) Slot(copy.target, i) = 0;
    }
    for (const PlannedSequence& planned : plan.sequences) Poison(planned);
  }
  // One sequence's rows were not finite.
  void Poison(const PlannedSequence& planned) {
    for (int32_t row = 0; row < NumWritten(planned); ++row) {
      const int32_t position = planned.first_position + row;
      for (const std::vector<int32_t>& table : planned.block_tables) {
        Slot(BlockAt(table, position), position) = 0;
      }
    }
  }

  static int32_t NumWritten(const PlannedSequence& planned) {
    return planned.num_tokens - (planned.last_row_cached ? 1 : 0);
  }

 private:
  uint64_t& Slot(int32_t block, int32_t position) {
    return slots_[static_cast<size_t>(block) * config_.block_size + position % config_.block_size];
  }
  int32_t BlockAt(const std::vector<int32_t>& table, int32_t position) const {
    const size_t i = position / config_.block_size;
    SIM_REQUIRE(i < table.size() && table[i] >= 0, "no block for position ", position);
    return table[i];
  }

  uint64_t RunRow(const PlannedSequence& planned, int32_t row) {
    const int32_t position = planned.first_position + row;
    int32_t token = planned.token_ids[row];
    if (token < 0) {
      SIM_REQUIRE_EQ(token, -1 - planned.seq_slot, "a token of another's slot");
      token = last_token_[planned.seq_slot];
    }
    const auto& tables = planned.block_tables;
    const uint64_t value =
        model_.Value(*planned.request, token, position,
                     [&](int32_t group, int32_t p) { return Slot(BlockAt(tables[group], p), p); });
    for (int32_t group = 0; group < static_cast<int32_t>(tables.size()); ++group) {
      uint64_t& slot = Slot(BlockAt(tables[group], position), position);
      const uint64_t kv = EchoModel::KvOf(value, group);
      // It sees its own KV too, which is said to be there.
      if (row >= NumWritten(planned) && slot != kv) return 0;
      slot = kv;
    }
    return value;
  }

  const SchedulerConfig config_;
  const EchoModel model_;
  std::vector<uint64_t> slots_;      // [num_blocks, block_size]
  std::vector<int32_t> last_token_;  // [max_num_seqs]
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_ECHO_DEVICE_H_
