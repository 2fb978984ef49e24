// `quire tokenize`: text to token ids, in bulk.

#include <memory>
#include <string>
#include <vector>

#include "server/cli/command.h"
#include "server/cli/engine_flags.h"
#include "server/cli/json_fields.h"
#include "server/cli/json_lines.h"
#include "server/model_text.h"

namespace quire::cli {
namespace {

struct Options {
  std::string model;
  std::string file;
  std::vector<GgufOverride> overrides;
};

Json TokenizeLine(const Tokenizer& tokenizer, const Json& line) {
  std::optional<std::string> text;
  EncodeOptions options;
  FieldReader fields(line);
  fields.Read("text", &text);
  fields.Read("add_special", &options.add_special);
  fields.Read("parse_special", &options.parse_special);
  if (auto failure = fields.Finish()) return ToJson(*failure);
  if (!text) return ToJson(MissingField("text", "a string"));
  absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(*text, options);
  if (!ids.ok()) return ToJson(ToFailure(ids.status(), "INVALID_FIELD"));
  return {{"ids", *ids}};
}

ExitCode Tokenize(const Options& options) {
  auto text = ModelText::Open(options.model, options.overrides);
  if (!text.ok()) return FailToLoad(text.status());
  const Tokenizer& tokenizer = (*text)->tokenizer();
  return AnswerLinesOf(options.file, /*concurrency=*/1,
                       [&](const Json& line) { return TokenizeLine(tokenizer, line); });
}

}  // namespace

Command TokenizeCommand() {
  auto options = std::make_shared<Options>();
  Flag model =
      MakeFlag("--model", "PATH", "Folder with tokenizer.json, or a .gguf file", &options->model);
  model.required = true;
  return {
      .name = "tokenize",
      .summary = "Text to token ids, JSON Lines in and out",
      .examples = R"(A line: {"text": "Hello", "add_special": true, "parse_special": true}
Its result: {"ids": [...]}, or {"error": {...}} while the rest go on.

Examples:
  echo '{"text": "Hello"}' | quire tokenize --model models/my-model
  quire tokenize --model model.gguf --file texts.jsonl > ids.jsonl)",
      .flags = {model, MakeFlag("--file", "FILE", "Lines to read (default: stdin)", &options->file),
                OverrideFlag(&options->overrides)},
      .run = [options] { return Tokenize(*options); }};
}

}  // namespace quire::cli
