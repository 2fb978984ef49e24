#ifndef QUIRE_SERVER_LOGPROB_LIST_H_
#define QUIRE_SERVER_LOGPROB_LIST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/token_listener.h"
#include "quire/v1/generation.pb.h"
#include "server/text/text.h"

namespace quire {

// The log-probabilities of tokens that have not been told yet, held as tightly as they allow: a
// client that does not read makes them wait. All entries have equally many of the likeliest tokens.
// One thread at a time.
class LogprobList {
 public:
  void Append(const RowLogprobs& logprobs);
  // An entry of another list of the same request.
  void Append(const LogprobList& other, size_t index);
  void DropFront(size_t count);
  void Clear() { DropFront(size()); }

  size_t size() const { return ranks_.size(); }
  bool empty() const { return ranks_.empty(); }
  // Natural logarithm, of the token itself.
  float logprob(size_t index) const { return entries_[index * stride_].logprob; }
  // `tokenizer` may be null: no bytes.
  void Fill(size_t index, const Tokenizer* tokenizer, v1::TokenLogprob* out) const;

 private:
  size_t stride_ = 1;  // 1 + the number of likeliest tokens
  std::vector<int32_t> ranks_;
  std::vector<TokenLogprob> entries_;  // [size, stride_]: the token itself, then the likeliest
};

// What a text gets from the token; empty without a tokenizer or a token.
absl::string_view BytesOfToken(const Tokenizer* tokenizer, int32_t token_id);

}  // namespace quire

#endif  // QUIRE_SERVER_LOGPROB_LIST_H_
