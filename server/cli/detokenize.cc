// `quire detokenize`: token ids to text, in bulk, with the pieces as a stream would emit them.

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

// One piece per id; what is left at the end is one more where it is not empty.
Json DetokenizeLine(const Tokenizer& tokenizer, const Json& line) {
  std::optional<std::vector<int32_t>> ids;
  bool skip_special_tokens = true;
  FieldReader fields(line);
  fields.Read("ids", &ids);
  fields.Read("skip_special_tokens", &skip_special_tokens);
  if (auto failure = fields.Finish()) return ToJson(*failure);
  if (!ids) return ToJson(MissingField("ids", "a list of token ids"));

  StreamDecoder decoder(tokenizer, skip_special_tokens);
  std::string text;
  std::vector<std::string> pieces;
  for (int32_t id : *ids) {
    std::string& piece = pieces.emplace_back();
    absl::Status status = decoder.Push(id, piece);
    if (!status.ok()) return ToJson(ToFailure(status, "INVALID_FIELD"));
    text += piece;
  }
  std::string rest;
  decoder.Flush(rest);
  text += rest;
  if (!rest.empty()) pieces.push_back(std::move(rest));
  return {{"text", std::move(text)}, {"pieces", std::move(pieces)}};
}

ExitCode Detokenize(const Options& options) {
  auto text = ModelText::Open(options.model, options.overrides);
  if (!text.ok()) return FailToLoad(text.status());
  const Tokenizer& tokenizer = (*text)->tokenizer();
  return AnswerLinesOf(options.file, /*concurrency=*/1,
                       [&](const Json& line) { return DetokenizeLine(tokenizer, line); });
}

}  // namespace

Command DetokenizeCommand() {
  auto options = std::make_shared<Options>();
  Flag model =
      MakeFlag("--model", "PATH", "Folder with tokenizer.json, or a .gguf file", &options->model);
  model.required = true;
  return {
      .name = "detokenize",
      .summary = "Token ids to text, JSON Lines in and out",
      .examples = R"(A line: {"ids": [9906, 1917], "skip_special_tokens": true}
Its result: {"text": "...", "pieces": [...]}: what a stream shows after each id, and, where
something is left, at the end. A line that fails gives {"error": {...}} and the rest go on.

Examples:
  echo '{"ids": [1, 2, 3]}' | quire detokenize --model models/my-model)",
      .flags = {model, MakeFlag("--file", "FILE", "Lines to read (default: stdin)", &options->file),
                OverrideFlag(&options->overrides)},
      .run = [options] { return Detokenize(*options); }};
}

}  // namespace quire::cli
