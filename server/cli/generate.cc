// `quire generate`: one answer to one prompt, or many in bulk.

#include <atomic>
#include <iostream>
#include <memory>
#include <string>
#include <unistd.h>

#include "server/cli/answer.h"
#include "server/cli/command.h"
#include "server/cli/endpoint.h"
#include "server/cli/json_lines.h"
#include "server/cli/log.h"
#include "server/cli/prompt_source.h"
#include "server/cli/report.h"
#include "server/cli/request_flags.h"
#include "server/cli/signal_watch.h"

namespace quire::cli {
namespace {

struct Options {
  EndpointOptions endpoint;
  PromptSource prompt;
  ChatOptions chat;
  v1::GenerateRequest request;
  bool json = false;
  bool stream = false;
  bool batch = false;
  int32_t concurrency = 64;
};

// Shows a failure where it belongs: always on stderr, and as the result with --json.
ExitCode Show(const Failure& failure, bool json, ExitCode code) {
  if (json) std::cout << OneLine(ToJson(failure)) << '\n';
  return Fail(code, failure.reason.empty() ? failure.message
                                           : absl::StrCat(failure.reason, ": ", failure.message));
}

bool Print(const std::string& text) {
  std::cout << text << std::flush;
  return std::cout.good();
}

// Text as it comes.
std::optional<Failure> GenerateText(Client& client, const v1::GenerateRequest& request) {
  TextPrinter printer(request);
  auto failure = client.Generate(
      request, [&](const v1::GenerateResponse& event) { return printer.Print(event); });
  if (isatty(STDOUT_FILENO) && request.params().n() <= 1) Print("\n");
  return failure;
}

std::optional<Failure> GenerateEvents(Client& client, const v1::GenerateRequest& request) {
  return client.Generate(request, [](const v1::GenerateResponse& event) {
    return Print(absl::StrCat(ToJsonLine(event), "\n"));
  });
}

std::optional<Failure> GenerateJson(Client& client, const v1::GenerateRequest& request,
                                    Json* result) {
  Answer answer;
  auto failure = client.Generate(request, [&](const v1::GenerateResponse& event) {
    answer.Add(event);
    return true;
  });
  if (!failure) *result = answer.ToJson();
  return failure;
}

ExitCode GenerateBatch(Client& client, const Options& options) {
  return AnswerLinesOf(options.prompt.file, options.concurrency, [&](const Json& line) {
    v1::GenerateRequest request = options.request;
    if (auto failure = MergeRequestLine(line, &request)) return ToJson(*failure);
    Json result;
    if (auto failure = GenerateJson(client, request, &result)) return ToJson(*failure);
    return result;
  });
}

std::optional<Failure> GenerateOne(Client& client, const Options& options) {
  if (options.json && options.stream) return GenerateEvents(client, options.request);
  if (!options.json) return GenerateText(client, options.request);
  Json result;
  auto failure = GenerateJson(client, options.request, &result);
  if (!failure) Print(absl::StrCat(OneLine(result), "\n"));
  return failure;
}

absl::Status CheckOptions(const Options& options) {
  const PromptSource& prompt = options.prompt;
  if (options.batch &&
      (prompt.text || !prompt.ids.empty() || !prompt.messages_file.empty() || options.stream)) {
    return absl::InvalidArgumentError(
        "--batch takes its requests from --file or stdin, and does not go with a prompt or "
        "--stream");
  }
  if (!options.chat.is_empty() && !options.batch && prompt.messages_file.empty()) {
    return absl::InvalidArgumentError(
        "--tools, --template-args, --add-generation-prompt and --continue-final-message go with "
        "--messages or --batch");
  }
  if (options.stream && !options.json) {
    return absl::InvalidArgumentError("--stream goes with --json; text is streamed anyway");
  }
  return absl::OkStatus();
}

ExitCode Generate(Options& options) {
  absl::Status status = CheckOptions(options);
  if (status.ok() && !options.chat.is_empty()) {
    status = SetChatOptions(options.chat, options.request.mutable_chat());
  }
  if (status.ok() && !options.batch) status = SetPrompt(options.prompt, &options.request);
  if (!status.ok()) return Fail(ExitCode::kUsage, status.message());

  LogAsCommand();
  InterruptHandler interrupts;
  Endpoint endpoint;
  ExitCode exit_code = ExitCode::kOk;
  if (auto failure = endpoint.Open(options.endpoint, &exit_code)) {
    return Show(*failure, options.json, exit_code);
  }
  // An interrupt ends it at once: it may be waiting for a line, and each result is written whole.
  if (options.batch) return GenerateBatch(endpoint.client(), options);
  std::atomic<bool> interrupted = false;
  interrupts.Set([&] {
    if (interrupted) _exit(static_cast<int>(ExitCode::kInterrupted));
    interrupted = true;
    endpoint.client().CancelAll();
  });
  if (auto failure = GenerateOne(endpoint.client(), options)) {
    exit_code = interrupted ? ExitCode::kInterrupted : ExitCodeOf(*failure);
    Show(*failure, options.json, exit_code);
  }
  interrupts.Set(nullptr);
  return interrupted ? ExitCode::kInterrupted : exit_code;
}

std::vector<Flag> GenerateFlags(Options* options) {
  PromptSource& prompt = options->prompt;
  v1::GenerateRequest* request = &options->request;
  std::vector<Flag> flags = {
      MakeFlag("PROMPT", "", "The prompt, as it is: no chat template", &prompt.text),
      MakeFlag("--file", "FILE", "The prompt, or the lines of --batch, from a file", &prompt.file),
      MakeFlag("--prompt-ids", "IDS", "The prompt as token ids: 1,2,3", &prompt.ids),
      MakeFlag("--messages", "FILE", "A conversation: JSON list of {\"role\", \"content\"}",
               &prompt.messages_file),
      MakeFlag("--tools", "FILE", "Functions that the model may call: JSON list, as OpenAI's",
               &options->chat.tools_file),
      MakeFlag("--template-args", "JSON", "Variables for the chat template: {\"name\": value}",
               &options->chat.template_args),
      MakeFlag("--add-generation-prompt", "BOOL",
               "End with the header of an answer (default: true)",
               &options->chat.add_generation_prompt),
      Switch("--continue-final-message", "Go on with the last message of the conversation",
             &options->chat.continue_final_message),
      Switch("--json", "One line of JSON on stdout instead of text", &options->json),
      Switch("--stream", "With --json: each event as a line, as it comes", &options->stream),
      Switch("--batch", "JSON Lines in and out: a request per line, a result per line",
             &options->batch),
      SizeFlag("--concurrency", "N", "Requests of --batch in work at once (default: 64)",
               &options->concurrency, 1, 4096),
      {.name = "--add-special-tokens",
       .value = "BOOL",
       .help = "Add BOS and the like to a text (default: true)",
       .set =
           [request](const std::string& text) {
             bool add = true;
             absl::Status status = ParseValue(text, &add);
             if (status.ok()) request->set_add_special_tokens(add);
             return status;
           }},
      {.name = "--return-prompt-token-ids",
       .help = "Show the prompt's token ids too",
       .set =
           [request](const std::string& text) {
             bool returned = false;
             absl::Status status = ParseValue(text, &returned);
             if (status.ok()) request->set_return_prompt_token_ids(returned);
             return status;
           }},
  };
  for (Flag& flag : RequestFlags(request)) flags.push_back(std::move(flag));
  for (Flag& flag : EndpointFlags(&options->endpoint)) flags.push_back(std::move(flag));
  return flags;
}

}  // namespace

Command GenerateCommand() {
  auto options = std::make_shared<Options>();
  return {.name = "generate",
          .summary = "Continue a prompt: text, --json or --batch",
          .examples = R"(--json prints {request_id, model, choices[{index, text, finish_reason,
token_ids}], usage, timings, params}, choices with --logprobs also {logprobs[],
cumulative_logprob}; or {"error": {code, reason, message, metadata}}.
A line of --batch is a GenerateRequest (proto/quire/v1/generation.proto) as JSON; `prompt`,
`messages`, `tools` and the parameters may stand beside each other. Flags are defaults
for its lines.

Examples:
  quire generate "Once upon a time" --max-tokens 50
  quire generate --model models/my-model --prompt-ids 1,42,7 --temperature 0 --json
  quire generate --messages chat.json --json --stream
  echo '{"prompt": "One, two,", "max_tokens": 8}' | quire generate --batch)",
          .flags = GenerateFlags(options.get()),
          .run = [options] { return Generate(*options); }};
}

}  // namespace quire::cli
