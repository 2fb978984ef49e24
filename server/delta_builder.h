#ifndef QUIRE_SERVER_DELTA_BUILDER_H_
#define QUIRE_SERVER_DELTA_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quire/v1/generation.pb.h"
#include "server/logprob_list.h"
#include "server/stop_strings.h"
#include "server/text/text.h"

namespace quire {

// How tokens become text, and where it stops: what the choices of a request share.
struct TextRules {
  const Tokenizer* tokenizer = nullptr;  // null: no text
  bool skip_special = true;
  std::vector<int32_t> stop_token_ids = {};
  StopStrings stop_strings{{}};
  bool include_stop_string = false;
  bool wants_logprobs = false;
  int32_t min_tokens = 0;  // before the token with this number no stop string counts
};

// What is to be told of one choice next? Takes tokens, gives deltas, each as large as what has come
// since the last, within the limits of a message. It knows nothing of time or transport.
//
// Text goes up to the stop token, whose own text is left out, or to a stop string; ids are all
// there, up to those. All text joined is the decoding of the ids before a stop token, cut at the
// stop string: at its end where the rules say to include it, else at its begin. Where the text of a
// token completes several stop strings, the one that begins first counts, then the first in the
// list. Text that may be the beginning of a stop string is held back.
//
// Owned by one stream, one thread at a time.
class DeltaBuilder {
 public:
  // What one delta holds at most: well below the 1 MiB that a message may have.
  static constexpr size_t kMaxTokens = 64 << 10;
  static constexpr size_t kMaxTextBytes = 384 << 10;
  static constexpr size_t kMaxLogprobBytes = 256 << 10;  // the last one may exceed it

  // `rules` must outlive this.
  explicit DeltaBuilder(const TextRules& rules);

  // A token, and entry `score` of `scores` about it where they were asked for (else null). What
  // comes after a stop string is dropped.
  void Add(int32_t token_id, const LogprobList* scores = nullptr, size_t score = 0);
  // No more tokens will come: releases the text that was held back for them.
  void Flush();

  bool HasDelta() const { return num_taken_ < token_ids_.size() || text_taken_ < TextEnd(); }
  // Moves the next delta into `*delta`. REQUIRES: HasDelta().
  void Take(v1::Delta* delta);

  // The stop string that was found; null: none.
  const std::string* stop_string() const { return stop_string_; }
  int32_t num_tokens() const { return num_tokens_; }  // all that count
  double cumulative_logprob() const { return cumulative_logprob_; }

 private:
  // Looks for stop strings in the text from `begin` on, which is new.
  void FindStop(size_t begin);
  size_t TextEnd() const { return text_.size() - num_held_; }
  size_t NumIdsOfNextDelta(v1::Delta* delta);

  const TextRules& rules_;
  std::optional<StreamDecoder> decoder_;
  StopScan scan_;
  const std::string* stop_string_ = nullptr;
  int32_t num_tokens_ = 0;
  double cumulative_logprob_ = 0;
  std::vector<int32_t> token_ids_;  // [num_taken_, end) are not told yet
  size_t num_taken_ = 0;
  LogprobList logprobs_;  // of the token ids that are not told yet
  std::string text_;      // [text_taken_, end) is not told yet
  size_t text_taken_ = 0;
  size_t num_held_ = 0;     // bytes at its end
  int64_t text_start_ = 0;  // of text_ in all the text of the choice
  int64_t num_told_ = 0;
};

}  // namespace quire

#endif  // QUIRE_SERVER_DELTA_BUILDER_H_
