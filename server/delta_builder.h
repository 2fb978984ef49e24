#ifndef QUIRE_SERVER_DELTA_BUILDER_H_
#define QUIRE_SERVER_DELTA_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "quire/v1/generation.pb.h"
#include "server/text/text.h"

namespace quire {

// What is to be told of one choice next? Takes tokens, gives deltas, each as large as what has come
// since the last, within the limits of a message. It knows nothing of time or transport.
//
// Text goes up to the stop token, whose own text is left out; ids are all there. Owned by one
// stream, one thread at a time.
class DeltaBuilder {
 public:
  // What one delta holds at most: well below the 1 MiB that a message may have.
  static constexpr size_t kMaxTokens = 64 << 10;
  static constexpr size_t kMaxTextBytes = 512 << 10;

  // `tokenizer` may be null: no text. It must outlive this.
  DeltaBuilder(const Tokenizer* tokenizer, bool skip_special, std::vector<int32_t> stop_token_ids);

  void Add(absl::Span<const int32_t> token_ids);
  // No more tokens will come: releases the text that was held back for them.
  void Flush();

  bool HasDelta() const { return num_taken_ < token_ids_.size() || text_taken_ < text_.size(); }
  // Moves the next delta into `*delta`. REQUIRES: HasDelta().
  void Take(v1::Delta* delta);

 private:
  std::optional<StreamDecoder> decoder_;
  const std::vector<int32_t> stop_token_ids_;
  std::vector<int32_t> token_ids_;  // [num_taken_, end) are not told yet
  size_t num_taken_ = 0;
  std::string text_;  // [text_taken_, end) is not told yet
  size_t text_taken_ = 0;
  int64_t num_told_ = 0;
};

}  // namespace quire

#endif  // QUIRE_SERVER_DELTA_BUILDER_H_
