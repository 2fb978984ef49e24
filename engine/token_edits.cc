#include "engine/token_edits.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

bool HasPenalties(const SamplingParams& sampling) {
  return sampling.repetition_penalty != 1 || sampling.frequency_penalty != 0 ||
         sampling.presence_penalty != 0;
}

}  // namespace

bool TokenEdits::Needed(const Request& request) {
  const TokenRules& rules = request.rules;
  return HasPenalties(request.sampling) || !rules.logit_bias.empty() ||
         !rules.allowed_token_ids.empty() || !rules.bad_words.empty() || rules.min_tokens > 0;
}

TokenEdits::TokenEdits(std::shared_ptr<const Request> request, int vocab_size)
    : request_(std::move(request)) {
  const TokenRules& rules = request_->rules;
  for (const LogitBias& bias : rules.logit_bias) biases_.push_back({bias.token_id, bias.bias});
  if (!rules.allowed_token_ids.empty()) allowed_.resize((vocab_size + 31) / 32);
  for (const int32_t id : rules.allowed_token_ids) allowed_[id / 32] |= 1u << (id % 32);
  if (!rules.bad_words.empty()) generated_.reserve(request_->max_tokens);
  banned_.reserve(request_->stop_token_ids.size() + rules.bad_words.size());
  if (HasPenalties(request_->sampling)) {
    const size_t num_tokens = request_->prompt_token_ids.size() + request_->max_tokens;
    const size_t num_distinct = std::min(num_tokens, static_cast<size_t>(vocab_size));
    counts_.reserve(num_distinct);
    count_of_.reserve(num_distinct);
    for (const int32_t id : request_->prompt_token_ids) Count(id, /*generated=*/false);
  }
}

void TokenEdits::Count(int32_t token_id, bool generated) {
  const auto [found, is_new] =
      count_of_.try_emplace(token_id, static_cast<int32_t>(counts_.size()));
  if (is_new) counts_.push_back({.token_id = token_id});
  TokenCount& count = counts_[found->second];
  if (generated) {
    ++count.num_generated;
  } else {
    count.in_prompt = true;
  }
}

void TokenEdits::OnToken(int32_t token_id) {
  ++num_generated_;
  if (!request_->rules.bad_words.empty()) generated_.push_back(token_id);
  if (HasPenalties(request_->sampling)) Count(token_id, /*generated=*/true);
}

LogitEdits TokenEdits::Next() {
  const TokenRules& rules = request_->rules;
  banned_.clear();
  if (num_generated_ < rules.min_tokens) {
    banned_.assign(request_->stop_token_ids.begin(), request_->stop_token_ids.end());
  }
  for (const std::vector<int32_t>& word : rules.bad_words) {
    const size_t num_before = word.size() - 1;
    if (num_before > generated_.size()) continue;
    if (std::equal(word.begin(), word.end() - 1, generated_.end() - num_before)) {
      banned_.push_back(word.back());
    }
  }
  const SamplingParams& sampling = request_->sampling;
  return {.biases = biases_,
          .allowed = allowed_,
          .banned = banned_,
          .counts = counts_,
          .repetition_penalty = sampling.repetition_penalty,
          .frequency_penalty = sampling.frequency_penalty,
          .presence_penalty = sampling.presence_penalty};
}

}  // namespace quire
