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
  samples_.reserve(limits.max_samples);
  logprobs_.reserve(limits.max_logit_rows + limits.max_samples);
  copies_.reserve(num_groups * num_seqs);
  outputs_.reserve(num_seqs);
}

void Batch::Build(const StepPlan& plan, EditsOf edits_of) {
  token_ids_.clear();
  positions_.clear();
  query_starts_.assign(1, 0);
  logit_rows_.clear();
  logit_taps_.clear();
  samples_.clear();
  logprobs_.clear();
  outputs_.clear();
  copies_.clear();
  for (const BlockCopyPlan& copy : plan.copies) copies_.push_back({copy.source, copy.target});
  for (const PlannedSequence& sequence : plan.sequences) {
    AppendRows(sequence);
    AppendLogitRows(sequence);
    AppendDraws(sequence, edits_of);
  }
  FillGroupArrays(plan);

  step_.shape = {static_cast<int>(token_ids_.size()), static_cast<int>(plan.sequences.size()),
                 static_cast<int>(logit_rows_.size()), static_cast<int>(samples_.size()),
                 static_cast<int>(logprobs_.size())};
  step_.token_ids = token_ids_;
  step_.positions = positions_;
  step_.slots = slots_;
  step_.query_starts = query_starts_;
  step_.block_tables = block_tables_;
  step_.logit_rows = logit_rows_;
  step_.logit_taps = logit_taps_;
  step_.samples = samples_;
  step_.logprob_rows = logprobs_;
  step_.copies = copies_;
}

void Batch::AppendRows(const PlannedSequence& sequence) {
  token_ids_.insert(token_ids_.end(), sequence.token_ids.begin(), sequence.token_ids.end());
  for (int i = 0; i < sequence.num_tokens; ++i) positions_.push_back(sequence.first_position + i);
  query_starts_.push_back(static_cast<int32_t>(token_ids_.size()));
}

void Batch::AppendLogitRows(const PlannedSequence& sequence) {
  Outputs& out = outputs_.emplace_back();
  const LogitsWanted wanted = sequence.request->logits;
  const bool taps_prompt =
      sequence.wants_prompt_rows && wanted == LogitsWanted::kPromptAndGenerated;
  const int end_row = query_starts_.back();
  int first_row = end_row;
  if (sequence.wants_prompt_rows) {
    first_row = end_row - sequence.num_tokens;
    if (taps_prompt) out.first_prompt_tap = static_cast<int>(logit_taps_.size());
    AppendPromptLogprobs(sequence, static_cast<int>(logit_rows_.size()));
  } else if (sequence.num_draws > 0) {
    first_row = end_row - 1;
  }
  for (int row = first_row; row < end_row; ++row) {
    const bool is_drawn_from = sequence.num_draws > 0 && row == end_row - 1;
    if (taps_prompt || (is_drawn_from && wanted != LogitsWanted::kNone)) {
      if (is_drawn_from) out.sample_tap = static_cast<int>(logit_taps_.size());
      logit_taps_.push_back(static_cast<int32_t>(logit_rows_.size()));
    }
    logit_rows_.push_back(row);
  }
}

void Batch::AppendPromptLogprobs(const PlannedSequence& sequence, int first_logit_row) {
  const int num_top = sequence.request->num_prompt_logprobs;
  if (num_top < 0) return;
  outputs_.back().first_prompt_logprob = static_cast<int>(logprobs_.size());
  for (int i = 0; i < sequence.num_tokens; ++i) {
    const bool is_last = i == sequence.num_tokens - 1;
    const int32_t next = is_last ? sequence.next_token_id : sequence.token_ids[i + 1];
    if (next >= 0) logprobs_.push_back({first_logit_row + i, next, num_top});
  }
}

void Batch::AppendDraws(const PlannedSequence& sequence, EditsOf edits_of) {
  if (sequence.num_draws == 0) return;
  Outputs& out = outputs_.back();
  out.first_sample = static_cast<int>(samples_.size());
  const SamplingParams& params = sequence.request->sampling;
  const int32_t logit_row = static_cast<int32_t>(logit_rows_.size()) - 1;
  for (int i = 0; i < sequence.num_draws; ++i) {
    samples_.push_back({.logit_row = logit_row,
                        .seq_slot = i == 0 ? sequence.seq_slot : -1,
                        .edits = edits_of(sequence.id + i),
                        .temperature = params.temperature,
                        .top_n_sigma = params.top_n_sigma,
                        .min_p = params.min_p,
                        .top_k = params.top_k,
                        .typical_p = params.typical_p,
                        .top_p = params.top_p,
                        .xtc_probability = params.xtc_probability,
                        .xtc_threshold = params.xtc_threshold,
                        .seed = params.seed,
                        .choice = sequence.first_choice + i,
                        .position = sequence.first_position + sequence.num_tokens});
  }
  const int num_top = sequence.request->num_logprobs;
  if (num_top < 0) return;
  out.first_logprob = static_cast<int>(logprobs_.size());
  for (int i = 0; i < sequence.num_draws; ++i) {
    logprobs_.push_back({logit_row, -1 - (out.first_sample + i), num_top});
  }
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
        const bool cached = i >= sequence.num_written();
        if (!cached) *slot = table[position / block_size_] * block_size_ + position % block_size_;
      }
    }
  }
}

}  // namespace quire
