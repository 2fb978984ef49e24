#ifndef QUIRE_SERVER_CLI_PROMPT_SOURCE_H_
#define QUIRE_SERVER_CLI_PROMPT_SOURCE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "quire/v1/generation.pb.h"
#include "server/cli/report.h"

namespace quire::cli {

// Where the prompt of `quire generate` comes from; one of them, else stdin.
struct PromptSource {
  std::optional<std::string> text;
  std::string file;
  std::vector<int32_t> ids;
  std::string messages_file;
};

// What goes with a conversation.
struct ChatOptions {
  std::string tools_file;     // a JSON list of functions
  std::string template_args;  // a JSON object
  std::optional<bool> add_generation_prompt;
  bool continue_final_message = false;

  bool is_empty() const {
    return tools_file.empty() && template_args.empty() && !add_generation_prompt &&
           !continue_final_message;
  }
};

// Puts them into `chat`. Errors name the flag or the file.
absl::Status SetChatOptions(const ChatOptions& options, v1::Chat* chat);

// Puts the prompt into `request`; what its chat has already stays. Errors name the flag or the
// file.
absl::Status SetPrompt(const PromptSource& source, v1::GenerateRequest* request);

// Puts a line of `--batch` over `request`: a GenerateRequest as protobuf JSON with the names of the
// .proto files. To be written easily, these are understood too: `prompt` (text, or a list of ids),
// `prompt_ids`, `token_ids` as a plain list, `messages`, `tools` and `template_args`, and fields of
// `params` beside the others; messages and tools as OpenAI writes them, with `tool_calls` and with
// `content` that is null or a list of texts.
std::optional<Failure> MergeRequestLine(const Json& line, v1::GenerateRequest* request);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_PROMPT_SOURCE_H_
