#include "server/delta_builder.h"

#include <algorithm>
#include <utility>

namespace quire {

DeltaBuilder::DeltaBuilder(const Tokenizer* tokenizer, bool skip_special,
                           std::vector<int32_t> stop_token_ids)
    : stop_token_ids_(std::move(stop_token_ids)) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer, skip_special);
}

void DeltaBuilder::Add(absl::Span<const int32_t> token_ids) {
  for (const int32_t id : token_ids) {
    token_ids_.push_back(id);
    if (!decoder_) continue;
    const bool stops =
        std::find(stop_token_ids_.begin(), stop_token_ids_.end(), id) != stop_token_ids_.end();
    // An id without a token (a padding row of the model) adds no text.
    if (!stops) decoder_->Push(id, text_).IgnoreError();
  }
}

void DeltaBuilder::Flush() {
  if (decoder_) decoder_->Flush(text_);
  decoder_.reset();
}

void DeltaBuilder::Take(v1::Delta* delta) {
  delta->set_token_offset(static_cast<uint32_t>(num_told_));
  const size_t num_ids = std::min(token_ids_.size() - num_taken_, kMaxTokens);
  delta->mutable_token_ids()->Add(
      token_ids_.begin() + static_cast<ptrdiff_t>(num_taken_),
      token_ids_.begin() + static_cast<ptrdiff_t>(num_taken_ + num_ids));
  num_taken_ += num_ids;
  num_told_ += static_cast<int64_t>(num_ids);
  if (num_taken_ == token_ids_.size()) {
    token_ids_.clear();
    num_taken_ = 0;
  }

  size_t end = std::min(text_.size(), text_taken_ + kMaxTextBytes);
  while (end < text_.size() && (text_[end] & 0xC0) == 0x80) --end;  // never inside a character
  delta->set_text(text_.substr(text_taken_, end - text_taken_));
  text_taken_ = end;
  if (text_taken_ == text_.size()) {
    text_.clear();
    text_taken_ = 0;
  }
}

}  // namespace quire
