// `quire eval`: what a model thinks of given texts, teacher-forced, in bulk. Runs on the engine
// itself: no server.

#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "engine/engine.h"
#include "server/cli/command.h"
#include "server/cli/engine_flags.h"
#include "server/cli/json_fields.h"
#include "server/cli/json_lines.h"
#include "server/cli/log.h"
#include "server/cli/token_scores.h"
#include "server/errors.h"
#include "server/model_text.h"

namespace quire::cli {
namespace {

struct Options {
  EngineConfig engine;
  std::string file;
  int32_t top = 0;
  int32_t concurrency = 4;
};

// Takes rows of logits from the engine thread to the one that scores them.
class RowQueue : public TokenListener {
 public:
  struct Row {
    int position = 0;
    std::vector<float> logits;
  };

  // The next row; nothing at the end of the sequence, whose status is then known.
  std::optional<Row> Next() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return !rows_.empty() || is_over_;
    };
    mutex_.Await(absl::Condition(&ready));
    if (rows_.empty()) return std::nullopt;
    Row row = std::move(rows_.front());
    rows_.pop_front();
    return row;
  }
  absl::Status status() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

  void OnAccepted(int, int) override {}
  void OnRefused(const absl::Status& status) override { End(status); }
  void OnPromptLogits(int position, absl::Span<const float> logits) override {
    Row row{.position = position, .logits = {logits.begin(), logits.end()}};
    absl::MutexLock lock(&mutex_);
    rows_.push_back(std::move(row));
  }
  void OnToken(const NewToken&, const TokenScores&) override {}
  void OnEnd(const EndedSequence& end) override { End(StatusOfEnd(end)); }

 private:
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    status_ = status;
    is_over_ = true;
  }

  absl::Mutex mutex_;
  std::deque<Row> rows_ ABSL_GUARDED_BY(mutex_);
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

Failure Invalid(std::string message) {
  return {.code = "INVALID_ARGUMENT", .reason = "INVALID_FIELD", .message = std::move(message)};
}

// The tokens of a line.
std::optional<Failure> ReadIds(const Json& line, const Engine& engine, const ModelText* model_text,
                               std::vector<int32_t>* ids) {
  std::optional<std::string> text;
  EncodeOptions options;
  FieldReader fields(line);
  fields.Read("ids", ids);
  fields.Read("text", &text);
  fields.Read("add_special", &options.add_special);
  if (auto failure = fields.Finish()) return failure;
  if (text.has_value() == !ids->empty()) return Invalid("expected one of ids and text, not empty");
  if (text) {
    if (model_text == nullptr) return Invalid("text: the model has no tokenizer; give ids");
    auto encoded = model_text->tokenizer().Encode(*text, options);
    if (!encoded.ok()) return ToFailure(encoded.status(), "INVALID_FIELD");
    *ids = *std::move(encoded);
    if (ids->empty()) return Invalid("text: gives no tokens");
  }
  for (int32_t id : *ids) {
    if (id < engine.info().vocab_size) continue;
    return Invalid(absl::StrCat("ids: ", id, " is not below the vocabulary's size ",
                                engine.info().vocab_size));
  }
  return std::nullopt;
}

Json TopJson(const std::vector<ScoredToken>& top) {
  Json shown = Json::array();
  for (const ScoredToken& token : top) {
    shown.push_back({{"token_id", token.token_id}, {"logprob", token.logprob}});
  }
  return shown;
}

// Rows come in the order of their positions.
Json ScoreAll(RowQueue& rows, const std::vector<int32_t>& ids, int num_top) {
  std::vector<double> logprobs;
  std::vector<int32_t> argmax;
  Json top = Json::array();
  double sum = 0;
  while (std::optional<RowQueue::Row> row = rows.Next()) {
    const size_t next = static_cast<size_t>(row->position) + 1;
    const int32_t next_id = next < ids.size() ? ids[next] : -1;
    const RowScores scores = ScoreRow(row->logits, next_id, num_top);
    argmax.push_back(scores.argmax);
    if (num_top > 0) top.push_back(TopJson(scores.top));
    if (next_id < 0) continue;
    logprobs.push_back(scores.next_logprob);
    sum += scores.next_logprob;
  }
  Json result = {{"logprobs", logprobs}, {"argmax", argmax}};
  if (num_top > 0) result["top"] = std::move(top);
  result["perplexity"] = nullptr;
  if (!logprobs.empty()) {
    result["perplexity"] = std::exp(-sum / static_cast<double>(logprobs.size()));
  }
  return result;
}

Json EvalLine(Engine& engine, const ModelText* model_text, int num_top, const Json& line) {
  auto request = std::make_shared<Request>();
  std::vector<int32_t>& ids = request->prompt_token_ids;
  if (auto failure = ReadIds(line, engine, model_text, &ids)) return ToJson(*failure);
  request->max_tokens = 0;
  request->logits = LogitsWanted::kPromptAndGenerated;
  auto rows = std::make_shared<RowQueue>();
  absl::StatusOr<SequenceId> id = engine.Submit(request, rows);
  if (!id.ok()) return ToJson(ToFailureWithReason(id.status()));
  Json result = ScoreAll(*rows, ids, num_top);
  absl::Status status = rows->status();
  if (!status.ok()) return ToJson(ToFailureWithReason(status));
  return result;
}

ExitCode Eval(const Options& options) {
  if (absl::Status status = CheckEngineFlags(options.engine); !status.ok()) {
    return Fail(ExitCode::kUsage, status.message());
  }
  LogAsCommand();
  absl::StatusOr<std::unique_ptr<ModelText>> text =
      ModelText::Open(options.engine.model_path, options.engine.gguf_overrides);
  if (!text.ok() && !absl::IsNotFound(text.status())) return FailToLoad(text.status());
  auto engine = Engine::Load(options.engine, [](absl::string_view, double) {});
  if (!engine.ok()) return FailToLoad(engine.status());
  const ModelText* model_text = text.ok() ? text->get() : nullptr;
  return AnswerLinesOf(options.file, options.concurrency, [&](const Json& line) {
    return EvalLine(**engine, model_text, options.top, line);
  });
}

}  // namespace

Command EvalCommand() {
  auto options = std::make_shared<Options>();
  Flag model = MakeFlag("--model", "PATH", "A folder in Hugging Face format, or a .gguf file",
                        &options->engine.model_path);
  model.required = true;
  std::vector<Flag> flags = {
      model,
      MakeFlag("--file", "FILE", "Lines to read (default: stdin)", &options->file),
      SizeFlag("--top", "K", "The K most likely tokens at each position (default: 0)",
               &options->top, 0, 1000),
      SizeFlag("--concurrency", "N", "Lines in work at once (default: 4)", &options->concurrency, 1,
               1024),
  };
  for (Flag& flag : EngineFlags(&options->engine)) flags.push_back(std::move(flag));
  return {.name = "eval",
          .summary = "Log probabilities and perplexity of texts, JSON Lines in and out",
          .examples = R"(A line: {"text": "...", "add_special": true} or {"ids": [...]}
Its result, for n tokens: {"logprobs": [n - 1, of each token but the first], "argmax": [n, the most
likely next token], "top": [n lists, with --top], "perplexity": number}; or {"error": {...}} while
the rest go on.

Examples:
  echo '{"text": "The sky is blue."}' | quire eval --model models/my-model --top 3)",
          .flags = std::move(flags),
          .run = [options] { return Eval(*options); }};
}

}  // namespace quire::cli
