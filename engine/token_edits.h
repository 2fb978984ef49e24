#ifndef QUIRE_ENGINE_TOKEN_EDITS_H_
#define QUIRE_ENGINE_TOKEN_EDITS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "kernels/sample_row.h"
#include "scheduler/request.h"

namespace quire {

// What do a request's rules do to the next token of one choice? Remembers of the tokens so far what
// the rules need: counts for penalties, the last words for bad_words, their number for min_tokens.
// It draws nothing (the backend does).
//
// It depends on the request and the tokens alone, so it is the same after a preemption and for any
// batch. One for each choice, engine thread only. All memory is taken by the constructor.
class TokenEdits {
 public:
  // Whether the request has any rule or penalty.
  static bool Needed(const Request& request);

  // O(prompt).
  TokenEdits(std::shared_ptr<const Request> request, int vocab_size);

  // A token was generated.
  void OnToken(int32_t token_id);
  // For the next one. Valid until the next call. O(bad_words).
  LogitEdits Next();

 private:
  void Count(int32_t token_id, bool generated);

  const std::shared_ptr<const Request> request_;
  std::vector<TokenBias> biases_;
  std::vector<uint32_t> allowed_;  // [ceil(vocab_size / 32)], or empty
  std::vector<int32_t> banned_;
  int32_t num_generated_ = 0;
  std::vector<int32_t> generated_;  // where there are bad_words
  // Where there are penalties: counts, and where in them each token is.
  std::vector<TokenCount> counts_;
  absl::flat_hash_map<int32_t, int32_t> count_of_;
};

}  // namespace quire

#endif  // QUIRE_ENGINE_TOKEN_EDITS_H_
