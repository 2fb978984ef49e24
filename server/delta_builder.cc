#include "server/delta_builder.h"

#include <algorithm>
#include <utility>

namespace quire {

DeltaBuilder::DeltaBuilder(const TextRules& rules) : rules_(rules), scan_(rules.stop_strings) {
  if (rules.tokenizer != nullptr) decoder_.emplace(*rules.tokenizer, rules.skip_special);
}

void DeltaBuilder::Add(int32_t token_id, const LogprobList* scores, size_t score) {
  if (stop_string_ != nullptr) return;
  token_ids_.push_back(token_id);
  ++num_tokens_;
  if (scores != nullptr) {
    logprobs_.Append(*scores, score);
    cumulative_logprob_ += scores->logprob(score);
  }
  if (!decoder_) return;
  const std::vector<int32_t>& stops = rules_.stop_token_ids;
  if (std::find(stops.begin(), stops.end(), token_id) != stops.end()) return;
  const size_t begin = text_.size();
  // An id without a token (a padding row of the model) adds no text.
  decoder_->Push(token_id, text_).IgnoreError();
  FindStop(begin);
}

void DeltaBuilder::FindStop(size_t begin) {
  if (rules_.stop_strings.empty()) return;
  const bool may_stop = num_tokens_ >= rules_.min_tokens;
  const auto match = scan_.Feed(absl::string_view(text_).substr(begin), may_stop);
  if (match) {
    stop_string_ = &rules_.stop_strings[match->index];
    const size_t kept = rules_.include_stop_string ? stop_string_->size() : 0;
    text_.resize(static_cast<size_t>(match->begin + static_cast<int64_t>(kept) - text_start_));
    num_held_ = 0;
    decoder_.reset();
  } else {
    num_held_ = rules_.include_stop_string ? 0 : static_cast<size_t>(scan_.num_held());
  }
}

void DeltaBuilder::Flush() {
  if (!decoder_) return;
  const size_t begin = text_.size();
  decoder_->Flush(text_);
  FindStop(begin);
  num_held_ = 0;
  decoder_.reset();
}

size_t DeltaBuilder::NumIdsOfNextDelta(v1::Delta* delta) {
  const size_t num_ids = std::min(token_ids_.size() - num_taken_, kMaxTokens);
  if (logprobs_.empty()) return num_ids;
  size_t num_bytes = 0;
  size_t count = 0;
  while (count < num_ids && num_bytes < kMaxLogprobBytes) {
    v1::TokenLogprob* entry = delta->add_logprobs();
    logprobs_.Fill(count++, rules_.tokenizer, entry);
    num_bytes += entry->ByteSizeLong();
  }
  logprobs_.DropFront(count);
  return count;
}

void DeltaBuilder::Take(v1::Delta* delta) {
  delta->set_token_offset(static_cast<uint32_t>(num_told_));
  const size_t num_ids = NumIdsOfNextDelta(delta);
  delta->mutable_token_ids()->Add(
      token_ids_.begin() + static_cast<ptrdiff_t>(num_taken_),
      token_ids_.begin() + static_cast<ptrdiff_t>(num_taken_ + num_ids));
  num_taken_ += num_ids;
  num_told_ += static_cast<int64_t>(num_ids);
  if (num_taken_ == token_ids_.size()) {
    token_ids_.clear();
    num_taken_ = 0;
  }

  size_t end = std::min(TextEnd(), text_taken_ + kMaxTextBytes);
  while (end < TextEnd() && (text_[end] & 0xC0) == 0x80) --end;  // never inside a character
  delta->set_text(text_.substr(text_taken_, end - text_taken_));
  text_taken_ = end;
  if (text_taken_ == TextEnd()) {
    text_.erase(0, text_taken_);
    text_start_ += static_cast<int64_t>(text_taken_);
    text_taken_ = 0;
  }
}

}  // namespace quire
