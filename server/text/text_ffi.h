// The C ABI of the Rust library in this folder (src/ffi.rs has the other side, and a test there
// counts and compares the names). C++ code uses text.h, not this.
//
// Rules for all functions:
// - Handles are opaque and typed. A function that takes a `const` handle may be called from many
//   threads at once; there is no function that changes a handle.
// - A function that can fail returns a QuireTextCode. Unless that is QUIRE_TEXT_OK it has written
//   a message to `*message` and nothing else. `message` and output pointers are never null.
// - What comes back as a QuireTextBuffer is the caller's, who gives it to quire_text_buffer_free
//   exactly once. An empty buffer (all zero) may be given too.
// - What comes back as a QuireTextBytes, or as a pointer in a view, belongs to the handle it came
//   from and lives as long as that.
// - Input is read during the call only. Text is UTF-8; what is not, is refused.
// - No function panics, aborts, reads the clock or writes to stdout or stderr.
#ifndef QUIRE_SERVER_TEXT_TEXT_FFI_H_
#define QUIRE_SERVER_TEXT_TEXT_FFI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum QuireTextCode {
  QUIRE_TEXT_OK = 0,
  QUIRE_TEXT_INVALID = 1,         // malformed input: a file, an array, a request
  QUIRE_TEXT_NOT_FOUND = 2,       // a file is not there
  QUIRE_TEXT_UNSUPPORTED = 3,     // well formed, of a kind this library does not handle
  QUIRE_TEXT_RAISED = 4,          // the template called raise_exception; its words are the message
  QUIRE_TEXT_TEMPLATE_FAULT = 5,  // the template itself fails on this conversation
  QUIRE_TEXT_EXHAUSTED = 6,       // a bound on steps, depth or output was reached
  QUIRE_TEXT_INTERNAL = 7         // a bug, here or underneath
} QuireTextCode;

// Flags of a token in QuireTextTokenizerView.flags.
typedef enum QuireTextTokenFlags {
  QUIRE_TEXT_TOKEN_PRESENT = 1,       // the id has a token; ids below vocab_size may have none
  QUIRE_TEXT_TOKEN_SPECIAL = 2,       // left out by skip_special
  QUIRE_TEXT_TOKEN_BYTE = 4,          // one byte of byte fallback
  QUIRE_TEXT_TOKEN_LITERAL_SPACE = 8  // its spaces are no word marks
} QuireTextTokenFlags;

typedef struct QuireTextTokenizer QuireTextTokenizer;
typedef struct QuireTextTemplate QuireTextTemplate;

// Borrowed text or bytes; data is null where there is none, which differs from empty.
typedef struct QuireTextBytes {
  const char* data;
  size_t size;
} QuireTextBytes;

// Owned text, or owned uint32_t ids (`size` counts bytes either way).
typedef struct QuireTextBuffer {
  void* data;
  size_t size;
  size_t capacity;
} QuireTextBuffer;

// A vocabulary as GGUF files carry it. Ids are -1 where the file has none.
typedef struct QuireTextVocab {
  QuireTextBytes model;  // "gpt2", "llama" or "t5"
  QuireTextBytes pre;    // the split into words; read for "gpt2" only
  const QuireTextBytes* tokens;
  size_t num_tokens;
  const int32_t* token_types;  // [num_token_types], num_tokens or none
  size_t num_token_types;
  const QuireTextBytes* merges;
  size_t num_merges;
  const float* scores;  // [num_scores], num_tokens or none
  size_t num_scores;
  QuireTextBytes chat_template;
  QuireTextBytes tool_template;  // for conversations with tools
  QuireTextBytes charsmap;       // SentencePiece's normalisation, bytes; read for "t5" only
  int64_t bos_id;
  int64_t eos_id;
  int64_t unk_id;
  int64_t pad_id;
  int8_t add_bos;  // 0, 1, or -1: as the model does where a file does not say; so the next two
  int8_t add_eos;
  int8_t add_space_prefix;
  uint8_t remove_extra_whitespaces;
} QuireTextVocab;

// What decoding needs, and what the files say. Token i adds bytes [starts[i], starts[i + 1]).
typedef struct QuireTextTokenizerView {
  const uint8_t* bytes;
  const uint32_t* starts;  // [vocab_size + 1]
  const uint8_t* flags;    // [vocab_size] QuireTextTokenFlags
  QuireTextBytes special_tokens_json;
  QuireTextBytes chat_template;
  QuireTextBytes tool_template;
  uint32_t vocab_size;  // the largest id + 1
  int32_t bos_id;       // -1 where there is none; so the next three
  int32_t eos_id;
  int32_t unk_id;
  int32_t pad_id;
  uint32_t strip_char;  // up to strip_count of these are cut from the start of a text
  uint32_t strip_count;
  uint8_t byte_level;          // characters may be split between any two tokens
  uint8_t first_drops_spaces;  // the first token of a text loses its word marks
} QuireTextTokenizerView;

// A conversation; JSON texts. `tools` and `kwargs` may have null data.
typedef struct QuireTextChat {
  QuireTextBytes messages;
  QuireTextBytes tools;
  QuireTextBytes kwargs;
  QuireTextBytes now;  // the clock of strftime_now: 2025-07-04T09:05:03
  uint8_t add_generation_prompt;
  uint8_t continue_final_message;
} QuireTextChat;

// Opens a folder in Hugging Face format, or, with an empty `directory`, takes `vocab`.
QuireTextCode quire_text_tokenizer_open(QuireTextBytes directory, const QuireTextVocab* vocab,
                                        QuireTextTokenizer** tokenizer, QuireTextBuffer* message);
void quire_text_tokenizer_free(QuireTextTokenizer* tokenizer);

void quire_text_tokenizer_view(const QuireTextTokenizer* tokenizer, QuireTextTokenizerView* view);

// Writes uint32_t ids to `*ids`.
QuireTextCode quire_text_tokenizer_encode(const QuireTextTokenizer* tokenizer, QuireTextBytes text,
                                          uint8_t add_special, uint8_t parse_special,
                                          QuireTextBuffer* ids, QuireTextBuffer* message);

// The id of the token that is written `token` in the vocabulary, or -1.
int64_t quire_text_tokenizer_find(const QuireTextTokenizer* tokenizer, QuireTextBytes token);

// `special_tokens_json`: an object of variables such as bos_token, or empty.
QuireTextCode quire_text_template_compile(QuireTextBytes source, QuireTextBytes special_tokens_json,
                                          QuireTextTemplate** chat_template,
                                          QuireTextBuffer* message);
void quire_text_template_free(QuireTextTemplate* chat_template);

QuireTextCode quire_text_template_render(const QuireTextTemplate* chat_template,
                                         const QuireTextChat* chat, QuireTextBuffer* text,
                                         QuireTextBuffer* message);

void quire_text_buffer_free(QuireTextBuffer buffer);

#ifdef __cplusplus
}  // extern "C"

// src/ffi.rs asserts the same numbers.
static_assert(sizeof(QuireTextBuffer) == 24 && sizeof(QuireTextVocab) == 184);
static_assert(sizeof(QuireTextTokenizerView) == 104 && sizeof(QuireTextChat) == 72);
static_assert(offsetof(QuireTextVocab, bos_id) == 144 && offsetof(QuireTextVocab, add_bos) == 176);
static_assert(offsetof(QuireTextTokenizerView, vocab_size) == 72);
static_assert(offsetof(QuireTextTokenizerView, byte_level) == 100);
#endif

#endif  // QUIRE_SERVER_TEXT_TEXT_FFI_H_
