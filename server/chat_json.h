#ifndef QUIRE_SERVER_CHAT_JSON_H_
#define QUIRE_SERVER_CHAT_JSON_H_

#include <string>

#include "absl/status/statusor.h"

#include "quire/v1/generation.pb.h"

namespace quire {

// A conversation as the JSON that chat templates know: OpenAI's messages and tools. Texts of JSON
// inside it come from a client: what is not a list of objects, is nested more than 64 deep or has
// an object of more than 1024 keys, is INVALID_FIELD that names the field.

// A list of {"role", "content"} and, where they are not empty, "name", "tool_call_id",
// "reasoning_content" and "tool_calls". The arguments of a call, which OpenAI writes as a string of
// JSON, become the object that templates expect.
absl::StatusOr<std::string> MessagesJson(const v1::Chat& chat);

// The tools, or empty: none.
absl::StatusOr<std::string> ToolsJson(const v1::Chat& chat);

}  // namespace quire

#endif  // QUIRE_SERVER_CHAT_JSON_H_
