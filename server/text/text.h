#ifndef QUIRE_SERVER_TEXT_TEXT_H_
#define QUIRE_SERVER_TEXT_TEXT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "server/text/text_ffi.h"

namespace quire {

// A vocabulary as a GGUF file carries it (gguf_vocab.h fills one). Texts are borrowed; they are
// read while a Tokenizer is made of them and not afterwards. Ids are -1 where there is none.
struct TextVocab {
  absl::string_view model;  // "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "t5" (unigram)
  absl::string_view pre;    // how "gpt2" splits text into words: "smollm", "qwen2", ...
  std::vector<absl::string_view> tokens;
  std::vector<int32_t> token_types;  // GGUF's numbers; as many as tokens, or none
  std::vector<absl::string_view> merges;
  std::vector<float> scores;  // as many as tokens, or none
  int32_t bos_id = -1;
  int32_t eos_id = -1;
  int32_t unk_id = -1;
  int32_t pad_id = -1;
  // Not set: as the model, or the pre-tokenizer's model, does where a file does not say.
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
  // Of "t5" only.
  bool remove_extra_whitespaces = false;
  std::string precompiled_charsmap;  // bytes; empty: text is not normalised
  absl::string_view chat_template;   // null data: there is none
  absl::string_view tool_template;   // for conversations with tools; null data: the same
};

struct EncodeOptions {
  // Add what the model wants around a text, BOS usually.
  bool add_special = true;
  // Special tokens written in the text are those tokens. Off for text that must not be able to
  // forge them; added tokens that are not special are recognised either way.
  bool parse_special = true;
};

// Which ids is a text, and which text are ids? Streams are decoded by StreamDecoder, conversations
// turned into text by ChatTemplate; stop strings and sizes of requests are others' business.
//
// Immutable; any thread, no locks. Encode allocates and costs about a microsecond per token;
// everything else is a table look-up.
class Tokenizer {
 public:
  // From a folder in Hugging Face format: tokenizer.json, and where they are there
  // tokenizer_config.json, special_tokens_map.json, chat_template.jinja. Symbolic links are
  // followed. NotFound without tokenizer.json, InvalidArgument where a file is broken,
  // Unimplemented where it is of a kind that is not handled; each names the file or the kind.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Open(const std::string& directory);
  // The same from arrays; errors name the entry.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromVocab(const TextVocab& vocab);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // InvalidArgument where `text` is not UTF-8.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              const EncodeOptions& options) const;

  // What a StreamDecoder would release for `ids`, all of it. OutOfRange for an id without a token.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids, bool skip_special) const;

  // The largest id + 1. A model may have more rows than that (padding): their ids have no token.
  int32_t vocab_size() const { return static_cast<int32_t>(view_.vocab_size); }
  // The id of the token that the vocabulary writes so ("<|im_end|>"), or -1.
  int32_t FindToken(absl::string_view token) const;
  bool HasToken(int32_t id) const { return HasFlag(id, QUIRE_TEXT_TOKEN_PRESENT); }
  bool IsSpecial(int32_t id) const { return HasFlag(id, QUIRE_TEXT_TOKEN_SPECIAL); }
  // The bytes that the token adds to a text, not always whole characters; empty without a token.
  // They live as long as the Tokenizer.
  absl::string_view TokenBytes(int32_t id) const;

  // As the files name them; -1 where they do not. A model may end by more tokens than eos_id.
  int32_t bos_id() const { return view_.bos_id; }
  int32_t eos_id() const { return view_.eos_id; }
  int32_t unk_id() const { return view_.unk_id; }
  int32_t pad_id() const { return view_.pad_id; }

  // For ChatTemplate::Compile. They live as long as the Tokenizer.
  bool has_chat_template() const { return view_.chat_template.data != nullptr; }
  absl::string_view chat_template() const;
  // The one for conversations with tools, where there is another; else its data is null.
  absl::string_view tool_template() const;
  absl::string_view special_tokens_json() const;

 private:
  friend class StreamDecoder;

  explicit Tokenizer(QuireTextTokenizer* handle);

  bool HasFlag(int32_t id, uint8_t flag) const {
    return id >= 0 && id < vocab_size() && (view_.flags[id] & flag) != 0;
  }

  QuireTextTokenizer* const handle_;  // owned
  QuireTextTokenizerView view_;       // points into *handle_
};

// Which text can be shown after each token of a stream?
//
// A character is released as soon as all its bytes are there, never in part, and never text that a
// later token would change. Bytes that cannot become a character are U+FFFD, one for each maximal
// invalid part, as soon as that is certain. All pieces and the rest of Flush joined are
// Tokenizer::Decode of the ids. Special tokens that are skipped do not end a character.
//
// Owned by one stream, one thread at a time; the Tokenizer must outlive it. Allocates only as the
// caller's string grows.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special);

  // Appends what `id` releases to `text`, maybe nothing. OutOfRange, changing nothing, for an id
  // without a token; the message names it.
  absl::Status Push(int32_t id, std::string& text);
  // Appends what is still held; call it once, at the end of the stream.
  void Flush(std::string& text);

 private:
  void AppendBytes(absl::string_view bytes, std::string& text);
  void AppendWhole(absl::string_view chars, std::string& text);
  void DropPending(std::string& text);

  const QuireTextTokenizerView& view_;
  const Tokenizer& tokenizer_;
  const bool skip_special_;
  bool any_token_ = false;
  uint32_t strips_left_;  // how many leading strip_chars may still be cut
  // The start of a character that more bytes may complete.
  char pending_[4] = {};
  uint8_t num_pending_ = 0;
};

// A conversation as JSON texts. Where a text comes from a client it needs no check before.
struct ChatRequest {
  absl::string_view messages_json = {};  // a list of {"role", "content", ...}
  absl::string_view tools_json = {};     // a list; empty: no tools
  absl::string_view kwargs_json = {};    // an object of further variables; empty: none
  bool add_generation_prompt = true;
  // Render up to the end of the last message, for the model to go on with it.
  bool continue_final_message = false;
  // The clock of strftime_now, as 2025-07-04T09:05:03; empty: the local time.
  absl::string_view now = {};
};

// Which text does a model expect for a conversation? Templates are Jinja as transformers sets it
// up and come from the operator; conversations are a client's.
//
// Immutable; any thread. A rendering is bounded in steps, depth and output.
class ChatTemplate {
 public:
  // `special_tokens_json`: variables such as bos_token (Tokenizer::special_tokens_json), or empty.
  // `tool_source`: what conversations with tools are rendered by (Tokenizer::tool_template); with
  // null data it is `source`. InvalidArgument with the line where a source is not a template.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Compile(
      absl::string_view source, absl::string_view special_tokens_json,
      absl::string_view tool_source = {});

  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // InvalidArgument: the request is malformed, or the template refuses the conversation by
  // raise_exception, whose words are passed on. FailedPrecondition: the template fails on it.
  // ResourceExhausted: a bound was reached.
  absl::StatusOr<std::string> Render(const ChatRequest& request) const;

 private:
  explicit ChatTemplate(QuireTextTemplate* handle) : handle_(handle) {}

  QuireTextTemplate* const handle_;           // owned
  std::unique_ptr<ChatTemplate> with_tools_;  // null: this one
};

}  // namespace quire

#endif  // QUIRE_SERVER_TEXT_TEXT_H_
