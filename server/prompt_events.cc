#include "server/prompt_events.h"

#include <algorithm>
#include <string>

namespace quire {

PromptEvents::PromptEvents(absl::Span<const int32_t> token_ids, bool wants_ids, bool wants_logprobs,
                           const Tokenizer* tokenizer)
    : token_ids_(token_ids),
      wants_any_(wants_ids || wants_logprobs),
      wants_logprobs_(wants_logprobs),
      tokenizer_(tokenizer) {}

void PromptEvents::Add(const LogprobList& scores) {
  for (size_t i = 0; i < scores.size(); ++i) scores_.Append(scores, i);
}

size_t PromptEvents::NumKnown() const {
  if (!wants_any_) return 0;
  if (!wants_logprobs_) return token_ids_.size();
  // The first token needs no other to be known, but does not go alone.
  if (num_told_ == 0) return scores_.empty() && token_ids_.size() > 1 ? 0 : scores_.size() + 1;
  return num_told_ + scores_.size();
}

void PromptEvents::Take(v1::Prompt* prompt) {
  prompt->set_token_offset(static_cast<uint32_t>(num_told_));
  const size_t end = std::min(NumKnown(), num_told_ + kMaxTokens);
  size_t num_bytes = 0;
  size_t num_scores = 0;
  while (num_told_ < end && num_bytes < kMaxLogprobBytes) {
    const int32_t token_id = token_ids_[num_told_];
    prompt->add_token_ids(static_cast<uint32_t>(token_id));
    if (wants_logprobs_) {
      v1::TokenLogprob* entry = prompt->add_logprobs();
      if (num_told_ == 0) {
        const absl::string_view bytes = BytesOfToken(tokenizer_, token_id);
        entry->set_token_id(static_cast<uint32_t>(token_id));
        entry->set_token_bytes(std::string(bytes.data(), bytes.size()));
      } else {
        scores_.Fill(num_scores++, tokenizer_, entry);
      }
      num_bytes += entry->ByteSizeLong();
    }
    ++num_told_;
  }
  scores_.DropFront(num_scores);
}

}  // namespace quire
