#ifndef QUIRE_SERVER_TEXT_GGUF_VOCAB_H_
#define QUIRE_SERVER_TEXT_GGUF_VOCAB_H_

#include "absl/status/statusor.h"

#include "engine/gguf.h"
#include "server/text/text.h"

namespace quire {

// The vocabulary in the metadata of `file`; its texts point into the file. Errors name file and
// key. Whether model and pre-tokenizer are supported is for Tokenizer::FromVocab to say.
absl::StatusOr<TextVocab> ReadGgufVocab(const GgufFile& file);

}  // namespace quire

#endif  // QUIRE_SERVER_TEXT_GGUF_VOCAB_H_
