#ifndef QUIRE_SERVER_PROMPT_H_
#define QUIRE_SERVER_PROMPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "engine/engine.h"
#include "quire/v1/generation.pb.h"
#include "server/model_text.h"

namespace quire {

// From what a client sends to tokens. All requests have passed validation.h. Costs about a
// microsecond per token, so none of it belongs on a thread of the transport.

// INVALID_ARGUMENT where the template refuses the conversation, with its words; FAILED_PRECONDITION
// where it fails on it; RESOURCE_EXHAUSTED where it does too much.
absl::StatusOr<std::string> RenderChat(const v1::Chat& chat, const ModelText& text);

// The tokens of the prompt, whichever kind it is; the last ones where they are truncated; all are
// below `info.vocab_size`. `text` may be null for token ids. INVALID_FIELD: a prompt that comes to
// no tokens, or to one that the model does not have though its tokenizer does. A text that is not
// truncated and has more bytes than `info.max_model_len` of the longest token have is
// CONTEXT_LENGTH_EXCEEDED before it is tokenised.
absl::StatusOr<std::vector<int32_t>> TokenizePrompt(const v1::GenerateRequest& request,
                                                    const ModelText* text, const ModelInfo& info);

}  // namespace quire

#endif  // QUIRE_SERVER_PROMPT_H_
