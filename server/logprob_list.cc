#include "server/logprob_list.h"

#include <algorithm>
#include <string>

namespace quire {

void LogprobList::Append(const RowLogprobs& logprobs) {
  if (empty()) stride_ = 1 + static_cast<size_t>(logprobs.num_top);
  ranks_.push_back(logprobs.rank);
  entries_.push_back(logprobs.token);
  entries_.insert(entries_.end(), logprobs.top.begin(), logprobs.top.begin() + logprobs.num_top);
}

void LogprobList::Append(const LogprobList& other, size_t index) {
  stride_ = other.stride_;
  ranks_.push_back(other.ranks_[index]);
  const auto begin = other.entries_.begin() + static_cast<ptrdiff_t>(index * stride_);
  entries_.insert(entries_.end(), begin, begin + static_cast<ptrdiff_t>(stride_));
}

void LogprobList::DropFront(size_t count) {
  ranks_.erase(ranks_.begin(), ranks_.begin() + static_cast<ptrdiff_t>(count));
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(count * stride_));
}

void LogprobList::Fill(size_t index, const Tokenizer* tokenizer, v1::TokenLogprob* out) const {
  const TokenLogprob* const entry = entries_.data() + index * stride_;
  const auto bytes_of = [tokenizer](int32_t token_id) {
    const absl::string_view bytes = BytesOfToken(tokenizer, token_id);
    return std::string(bytes.data(), bytes.size());
  };
  out->set_token_id(static_cast<uint32_t>(entry->token_id));
  out->set_logprob(entry->logprob);
  out->set_rank(static_cast<uint32_t>(ranks_[index]));
  out->set_token_bytes(bytes_of(entry->token_id));
  for (size_t i = 1; i < stride_; ++i) {
    v1::TopLogprob* top = out->add_top();
    top->set_token_id(static_cast<uint32_t>(entry[i].token_id));
    top->set_logprob(entry[i].logprob);
    top->set_token_bytes(bytes_of(entry[i].token_id));
  }
}

absl::string_view BytesOfToken(const Tokenizer* tokenizer, int32_t token_id) {
  return tokenizer == nullptr ? absl::string_view() : tokenizer->TokenBytes(token_id);
}

}  // namespace quire
