#ifndef QUIRE_SERVER_MODEL_TEXT_H_
#define QUIRE_SERVER_MODEL_TEXT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/gguf_override.h"
#include "server/text/text.h"

namespace quire {

// Which tokenizer and chat template belong to a model? What they do is server/text's.
// Immutable; any thread.
class ModelText {
 public:
  // `model_path` is a folder in Hugging Face format or a GGUF file, with or without weights.
  // NotFound where it has no tokenizer at all; other errors mean that what it has is broken. A chat
  // template that does not compile is no failure of the model: see chat_template_error().
  // Overrides are for the metadata of a GGUF file.
  static absl::StatusOr<std::unique_ptr<ModelText>> Open(
      const std::string& model_path, absl::Span<const GgufOverride> overrides = {});
  // `chat_template` may be null.
  ModelText(std::unique_ptr<Tokenizer> tokenizer, std::unique_ptr<ChatTemplate> chat_template);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ChatTemplate* chat_template() const { return chat_template_.get(); }  // null: none
  // Of the longest token: a text has at least its bytes / this many tokens.
  int64_t max_token_bytes() const { return max_token_bytes_; }
  // Why there is no chat template.
  const absl::Status& chat_template_error() const { return chat_template_error_; }

 private:
  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::unique_ptr<ChatTemplate> chat_template_;
  int64_t max_token_bytes_ = 1;       // constant after construction
  absl::Status chat_template_error_;  // constant after Open
};

}  // namespace quire

#endif  // QUIRE_SERVER_MODEL_TEXT_H_
