// `quire template`: conversations to the text that a model expects, in bulk.

#include <memory>
#include <string>

#include "server/cli/command.h"
#include "server/cli/engine_flags.h"
#include "server/cli/json_fields.h"
#include "server/cli/json_lines.h"
#include "server/cli/read_text.h"
#include "server/model_text.h"

namespace quire::cli {
namespace {

struct Options {
  std::string model;
  std::string template_file;
  std::string special_tokens_file;
  std::string file;
  std::vector<GgufOverride> overrides;
};

Json TemplateLine(const ChatTemplate& chat_template, const Json& line) {
  FieldReader fields(line);
  ChatRequest request;
  std::string now;
  const Json* messages = fields.Take("messages");
  const Json* tools = fields.Take("tools");
  const Json* kwargs = fields.Take("kwargs");
  fields.Read("add_generation_prompt", &request.add_generation_prompt);
  fields.Read("continue_final_message", &request.continue_final_message);
  fields.Read("now", &now);
  if (auto failure = fields.Finish()) return ToJson(*failure);
  if (messages == nullptr) return ToJson(MissingField("messages", "a list of messages"));

  const std::string messages_json = OneLine(*messages);
  const std::string tools_json = tools != nullptr ? OneLine(*tools) : "";
  const std::string kwargs_json = kwargs != nullptr ? OneLine(*kwargs) : "";
  request.messages_json = messages_json;
  request.tools_json = tools_json;
  request.kwargs_json = kwargs_json;
  request.now = now;
  absl::StatusOr<std::string> text = chat_template.Render(request);
  if (!text.ok()) return ToJson(ToFailure(text.status(), "INVALID_FIELD"));
  return {{"text", *std::move(text)}};
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> CompileFiles(const Options& options) {
  absl::StatusOr<std::string> source = ReadText(options.template_file);
  if (!source.ok()) return source.status();
  absl::StatusOr<std::string> special_tokens = std::string();
  if (!options.special_tokens_file.empty()) special_tokens = ReadText(options.special_tokens_file);
  if (!special_tokens.ok()) return special_tokens.status();
  return ChatTemplate::Compile(*source, *special_tokens);
}

ExitCode AnswerWith(const ChatTemplate& chat_template, const Options& options) {
  return AnswerLinesOf(options.file, /*concurrency=*/1,
                       [&](const Json& line) { return TemplateLine(chat_template, line); });
}

ExitCode Template(const Options& options) {
  if (options.model.empty() == options.template_file.empty()) {
    return Fail(ExitCode::kUsage, "template: give one of --model PATH and --template FILE");
  }
  if (!options.special_tokens_file.empty() && options.template_file.empty()) {
    return Fail(ExitCode::kUsage, "template: --special-tokens goes with --template");
  }
  if (!options.template_file.empty()) {
    auto chat_template = CompileFiles(options);
    if (!chat_template.ok()) return FailToLoad(chat_template.status());
    return AnswerWith(**chat_template, options);
  }
  auto text = ModelText::Open(options.model, options.overrides);
  if (!text.ok()) return FailToLoad(text.status());
  if ((*text)->chat_template() != nullptr) return AnswerWith(*(*text)->chat_template(), options);
  return Fail(ExitCode::kModelFiles,
              absl::StrCat(options.model, ": ", (*text)->chat_template_error().message(),
                           "; give one with --template FILE"));
}

}  // namespace

Command TemplateCommand() {
  auto options = std::make_shared<Options>();
  Flag model = MakeFlag("--model", "PATH", "Model with a chat template: a folder, or a .gguf file",
                        &options->model);
  model.yields_to = {"--template"};
  return {.name = "template",
          .summary = "Conversations to prompts by a chat template, JSON Lines in and out",
          .examples = R"(A line: {"messages": [...], "tools": [...], "add_generation_prompt": true,
"continue_final_message": false, "kwargs": {...}, "now": "2025-07-04T09:05:03"}; only messages is
required; `now` fixes the clock of strftime_now.
Its result: {"text": "..."}, or {"error": {...}} while the rest go on.

Examples:
  echo '{"messages": [{"role": "user", "content": "Hi"}]}' | quire template --model models/my-model
  quire template --template chat_template.jinja --special-tokens tokens.json --file cases.jsonl)",
          .flags = {model,
                    MakeFlag("--template", "FILE", "A Jinja file instead of a model's template",
                             &options->template_file),
                    MakeFlag("--special-tokens", "FILE",
                             "JSON object with bos_token, eos_token, ... for --template",
                             &options->special_tokens_file),
                    MakeFlag("--file", "FILE", "Lines to read (default: stdin)", &options->file),
                    OverrideFlag(&options->overrides)},
          .run = [options] { return Template(*options); }};
}

}  // namespace quire::cli
