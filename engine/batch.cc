#include "engine/batch.h"

#include <algorithm>

namespace quire {

Batch::Batch(const StepLimits& limits, int num_groups, int block_size)
    : num_groups_(num_groups), block_size_(block_size) {
  const size_t num_tokens = limits.max_num_tokens;
  const size_t num_seqs = limits.max_num_seqs;
  const size_t max_blocks = (limits.max_model_len + block_size - 1) / block_size;
  token_ids_.reserve(num_tokens);
  positions_.reserve(num_tokens);
  slots_.reserve(num_groups * num_tokens);
  query_starts_.reserve(num_seqs + 1);
  block_tables_.reserve(num_groups * num_seqs * max_blocks);
  logit_rows_.reserve(limits.max_logit_rows);
  logit_taps_.reserve(limits.max_logit_rows);
  samples_.reserve(num_seqs);
  copies_.reserve(num_seqs);
  outputs_.reserve(num_seqs);
}

void Batch::Build(const StepPlan& plan) {
  token_ids_.clear();
  positions_.clear();
  query_starts_.assign(1, 0);
  logit_rows_.clear();
  logit_taps_.clear();
  samples_.clear();
  outputs_.clear();
  copies_.clear();
  for (const BlockCopyPlan& copy : plan.copies) copies_.push_back({copy.source, copy.target});
  for (const PlannedSequence& sequence : plan.sequences) {
    AppendRows(sequence);
    AppendLogitRows(sequence);
  }
  FillGroupArrays(plan);

  step_.shape = {static_cast<int>(token_ids_.size()), static_cast<int>(plan.sequences.size()),
                 static_cast<int>(logit_rows_.size()), static_cast<int>(samples_.size())};
  step_.token_ids = token_ids_;
  step_.positions = positions_;
  step_.slots = slots_;
  step_.query_starts = query_starts_;
  step_.block_tables = block_tables_;
  step_.logit_rows = logit_rows_;
  step_.logit_taps = logit_taps_;
  step_.samples = samples_;
  step_.copies = copies_;
}

void Batch::AppendRows(const PlannedSequence& sequence) {
  token_ids_.insert(token_ids_.end(), sequence.token_ids.begin(), sequence.token_ids.end());
  for (int i = 0; i < sequence.num_tokens; ++i) positions_.push_back(sequence.first_position + i);
  query_starts_.push_back(static_cast<int32_t>(token_ids_.size()));
}

void Batch::AppendLogitRows(const PlannedSequence& sequence) {
  Outputs out;
  const int end_row = query_starts_.back();
  int first_row = end_row;
  if (sequence.wants_prompt_logits) {
    first_row = end_row - sequence.num_tokens;
    out.first_prompt_tap = static_cast<int>(logit_taps_.size());
  } else if (sequence.samples) {
    first_row = end_row - 1;
  }
  for (int row = first_row; row < end_row; ++row) {
    const bool drawn = sequence.samples && row == end_row - 1;
    if (sequence.wants_prompt_logits || (drawn && sequence.wants_logits)) {
      if (drawn) out.sample_tap = static_cast<int>(logit_taps_.size());
      logit_taps_.push_back(static_cast<int32_t>(logit_rows_.size()));
    }
    logit_rows_.push_back(row);
  }
  if (sequence.samples) {
    const SamplingParams& params = sequence.sampling;
    out.sample = static_cast<int>(samples_.size());
    samples_.push_back({.logit_row = static_cast<int32_t>(logit_rows_.size()) - 1,
                        .seq_slot = sequence.seq_slot,
                        .temperature = params.temperature,
                        .top_k = params.top_k,
                        .top_p = params.top_p,
                        .min_p = params.min_p,
                        .seed = params.seed,
                        .choice = params.choice,
                        .position = sequence.first_position + sequence.num_tokens});
  }
  outputs_.push_back(out);
}

void Batch::FillGroupArrays(const StepPlan& plan) {
  size_t max_blocks = 0;
  for (const PlannedSequence& sequence : plan.sequences) {
    for (const auto& table : sequence.block_tables) max_blocks = std::max(max_blocks, table.size());
  }
  step_.max_blocks = static_cast<int>(max_blocks);
  block_tables_.assign(num_groups_ * plan.sequences.size() * max_blocks, -1);
  slots_.assign(num_groups_ * token_ids_.size(), -1);
  for (int group = 0; group < num_groups_; ++group) {
    int32_t* slot = slots_.data() + group * token_ids_.size();
    int32_t* row = block_tables_.data() + group * plan.sequences.size() * max_blocks;
    for (const PlannedSequence& sequence : plan.sequences) {
      const std::vector<int32_t>& table = sequence.block_tables[group];
      std::copy(table.begin(), table.end(), row);
      row += max_blocks;
      for (int i = 0; i < sequence.num_tokens; ++i, ++slot) {
        const int position = sequence.first_position + i;
        const bool cached = sequence.last_row_cached && i == sequence.num_tokens - 1;
        if (!cached) *slot = table[position / block_size_] * block_size_ + position % block_size_;
      }
    }
  }
}

}  // namespace quire
